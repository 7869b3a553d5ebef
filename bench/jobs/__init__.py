"""How fast jobs run, beside durable engines and Celery: `make bench-jobs`. Read __main__ first."""

CHAIN = 10  # steps of the chain that every party runs
