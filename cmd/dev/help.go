package main

const program = "dlq-dev"

const help = `dlq-dev runs the DLQ manager and everything that it needs on this machine, without configuration.

Usage:
  dlq-dev       start everything and run until Ctrl-C (make run)
  dlq-dev demo  run a shop whose consumer fails, beside a running dlq-dev (make demo)
  dlq-dev help  print this; dlq-dev demo -h shows the flags of the shop

It starts, all on 127.0.0.1:

  part             address                                 another port
  Console          http://127.0.0.1:8080/                  DLQ_SERVER_PORT
  REST API         http://127.0.0.1:8080/api/v1/dlq        the same
                   and /docs, /metrics, /readyz
  Worker           http://127.0.0.1:9090/metrics, /readyz  DLQ_WORKER_METRICS_PORT
  Temporal         127.0.0.1:7233                          DLQ_DEV_TEMPORAL_PORT
  Temporal Web UI  http://127.0.0.1:8233                   DLQ_DEV_TEMPORAL_UI_PORT (0: none)
  PostgreSQL       127.0.0.1:15432, database dlq_db,       DLQ_DEV_POSTGRES_PORT
                   user postgres, no password
  Kafka            127.0.0.1:19092, a broker in dlq-dev    DLQ_DEV_KAFKA_PORT
  Demo's receipts  http://127.0.0.1:18081 (make demo)      DLQ_DEV_RECEIPTS_PORT

The environment can name running services to use instead:
  DLQ_DATABASE_HOST     PostgreSQL; also DLQ_DATABASE_PORT, _NAME, _USER, _PASSWORD, _SSL_MODE
  DLQ_KAFKA_BROKERS     Kafka, as host:port,host:port
  DLQ_TEMPORAL_ADDRESS  Temporal, as host:port; or TEMPORAL_ADDRESS
Every other key of config.yaml can be set in the same way, such as DLQ_LOG_LEVEL=debug.

Temporal is the program that DLQ_DEV_TEMPORAL_BIN names, or temporal on the PATH. Without
either, the first start builds it, which takes about 3 minutes. PostgreSQL is taken from this
machine, or downloaded.

The state is in .data in the current folder, or in the folder that DLQ_DEV_DIR names:
  postgres/, kafka/, temporal/  data and logs of the services
  bin/                          the Temporal CLI, if it was built
  dlq-manager.log               the log of the API and the worker
Delete the folder to start over.

Ctrl-C or SIGTERM stops everything in order and keeps the state. A second one ends the
process at once. After kill -9 the next start continues from the stored state.
Exit codes: 0 after a stop, 1 after an error, 2 for a usage error.
`

const demoHelp = `dlq-dev demo runs a shop whose consumer fails, beside a running dlq-dev. It fills
dead-letter topics with messages of every header family, and consumes messages that
are sent back: from Kafka, and receipts over HTTP. Ctrl-C stops it.

Usage:
  dlq-dev demo [flags]

Flags:
  -messages N     the number of dead letters at the start (default 60)
  -once           exit after those
  -fix-file FILE  messages that are sent back fail until this file exists

The broker is the one that DLQ_KAFKA_BROKERS names, else the one on DLQ_DEV_KAFKA_PORT
(default 19092).
`
