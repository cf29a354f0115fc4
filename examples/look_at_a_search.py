"""Show what a search selected and its best trials, and draw two figures.

python -m co2l.tune --space search_spaces/seq_digits.yaml && python examples/look_at_a_search.py
"""

import co2l

study = co2l.load_study("runs", "seq_digits")
for chosen in study.best():
    print(
        f"{chosen['score']:.2f} {chosen['group']}: eta={chosen['settings']['eta']} kappa={chosen['settings']['kappa']}"
    )
print(study.frame().sort_values("score", ascending=False).head(5).to_string(index=False))
for name in ("history", "importance"):
    study.figure(name).savefig(f"{name}.png")
