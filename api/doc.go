// Package api is the REST face of the manager: it reads messages from a store,
// starts and watches retries, and speaks the documented bodies, codes and
// headers. It decides nothing about messages itself; the rules are in dlq.
package api
