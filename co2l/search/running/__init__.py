"""How trials run: coordinator, queue, engine (Ray Tune), trainable, nodes, and a Ray on this machine."""

import os

# Ray reads these when it is imported, so they are set before any module here does
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # on Linux too: a Ray started here is on loopback only
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # its way out tells neither searcher nor trials
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "86400")  # the record is in the study, not in Tune's snapshots
os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", "1000000")  # the searcher limits how many wait for a slot
