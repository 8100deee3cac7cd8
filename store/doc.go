// Package store keeps dead letters. Postgres is the real one; Memory is for
// development without a database and for tests. Both keep one contract, which
// storetest proves on each.
package store
