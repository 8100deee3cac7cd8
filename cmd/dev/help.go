package main

const program = "dlq-dev"

const help = `dlq-dev runs the DLQ manager and all that it needs on this machine, with nothing configured.

Usage:
  dlq-dev       start everything and run until Ctrl-C (make run)
  dlq-dev demo  run a shop whose consumer fails, beside a running dlq-dev (make demo)
  dlq-dev help  print this; dlq-dev demo -h shows the flags of the shop

It starts, all on 127.0.0.1:

  part             address                                 another port
  REST API         http://127.0.0.1:8080/api/v1/dlq        DLQ_SERVER_PORT
                   and /docs, /metrics, /readyz
  Worker           http://127.0.0.1:9090/metrics, /readyz  DLQ_WORKER_METRICS_PORT
  Temporal         127.0.0.1:7233                          DLQ_DEV_TEMPORAL_PORT
  Temporal Web UI  http://127.0.0.1:8233                   DLQ_DEV_TEMPORAL_UI_PORT (0: none)
  PostgreSQL       127.0.0.1:15432, database dlq_db,       DLQ_DEV_POSTGRES_PORT
                   user postgres, no password
  Kafka            127.0.0.1:19092, a broker in dlq-dev    DLQ_DEV_KAFKA_PORT

A service that runs already is used instead when the environment names it:
  DLQ_DATABASE_HOST     PostgreSQL; also DLQ_DATABASE_PORT, _NAME, _USER, _PASSWORD, _SSL_MODE
  DLQ_KAFKA_BROKERS     Kafka, as host:port,host:port
  DLQ_TEMPORAL_ADDRESS  Temporal, as host:port; or TEMPORAL_ADDRESS
Every other key of config.yaml can be set too, such as DLQ_LOG_LEVEL=debug.

Temporal is the program temporal on the PATH, or the one that DLQ_DEV_TEMPORAL_BIN names.
Without either the first start builds it, which takes about 3 minutes. PostgreSQL comes
from this machine, or is downloaded.

The state lies in .data in the current folder, or where DLQ_DEV_DIR says:
  postgres/, kafka/, temporal/  data and logs of the parts
  bin/                          the Temporal CLI, where it was built
  dlq-manager.log               the log of the API and the worker
Delete the folder to start over.

Ctrl-C or SIGTERM stops everything in order and keeps the state; a second one ends it at
once. After kill -9 the next start goes on where this one was.
Exit codes: 0 after a stop, 1 after an error, 2 for a wrong call.
`

const demoHelp = `dlq-dev demo runs a shop whose consumer fails, beside a running dlq-dev. It fills
dead-letter topics with messages of every header family, and consumes what comes back.
Ctrl-C closes it.

Usage:
  dlq-dev demo [flags]

Flags:
  -messages N     how many dead letters the shop begins with (default 60)
  -once           end after those instead of going on
  -fix-file FILE  what comes back keeps failing until this file exists

The broker is that of DLQ_KAFKA_BROKERS, else the one on DLQ_DEV_KAFKA_PORT (default 19092).
`
