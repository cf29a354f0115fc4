"""Show test accuracy by buffer size and seed, and draw the mean accuracy matrix.

python -m co2l.evaluate --study seq_digits --seeds 5 && python examples/compare_by_seed.py
"""

import co2l

study = co2l.load_study("runs", "seq_digits.test")
axis = next(iter(study.space.axes))
print(study.frame().pivot_table(index="seed", columns=axis, values="class_il").round(2).to_string())
study.figure("matrix").savefig("matrix.png")
