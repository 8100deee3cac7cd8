package api

import (
	"maps"
	"net/http"
	"slices"
)

// needsDatabase refuses a request that messages in memory are not enough for, and names the fields
// that are the reason, if it is not the route.
func needsDatabase(fields ...string) *apiError {
	r := &apiError{status: http.StatusNotImplemented, code: codeNeedsDatabase,
		message: "this needs a database, and messages are kept in memory; set database.host (DLQ_DATABASE_HOST)"}
	for _, field := range fields {
		r.details = append(r.details, detail{Field: field, Message: "needs a database"})
	}
	return r
}

// checkGiven refuses the parameters or fields of a request that need a database, if there is none.
// works are the others.
func checkGiven[V any](s *Server, given map[string]V, works ...string) error {
	if s.guard.hasDatabase() {
		return nil
	}
	fields := slices.DeleteFunc(slices.Sorted(maps.Keys(given)), func(name string) bool { return slices.Contains(works, name) })
	if len(fields) == 0 {
		return nil
	}
	return needsDatabase(fields...)
}
