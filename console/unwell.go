package console

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"dlqmanager/client"
)

// trouble is a problem that a person has to look after, with the page that shows more.
type trouble struct{ Text, Path, Name string }

// optional turns the error of a part of a page into a sentence in its place.
func (v *visit) optional(err error) string {
	switch {
	case err == nil:
		return ""
	case isStatus(err, http.StatusForbidden):
		return v.text("Your rights do not include this part. An administrator of the manager can give you more.")
	case isStatus(err, http.StatusNotImplemented):
		return v.text("This part needs a database.")
	default:
		return v.explain(err)
	}
}

// readiness names the services that the manager needs and that do not answer. GET /readyz names them in its answer 503.
func (v *visit) readiness(ctx context.Context) []trouble {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	_, err := v.api.Readyz(ctx)
	return v.away(err)
}

// away reads the answer of GET /readyz, which is an error if a service is unavailable.
func (v *visit) away(err error) []trouble {
	if err == nil {
		return nil
	}
	var refused *client.APIError
	var ready client.Ready
	if !errors.As(err, &refused) || json.Unmarshal(refused.Body, &ready) != nil || len(ready.Checks) == 0 {
		return []trouble{{Text: v.text("It is not known whether the services answer: %s", v.explain(err))}}
	}
	var troubles []trouble
	for _, name := range slices.Sorted(maps.Keys(ready.Checks)) {
		if state := ready.Checks[name]; state != "ok" {
			troubles = append(troubles, trouble{Text: v.text("%s does not answer (%s).", name, state)})
		}
	}
	if len(troubles) == 0 {
		troubles = append(troubles, trouble{Text: v.text("The server is %s.", string(ready.Status))})
	}
	return troubles
}

// troubles are the topics whose ingest is held, and the topics whose records Kafka has deleted before they were stored.
func (v *visit) troubles(topics []client.Topics_Topics) []trouble {
	var all []trouble
	for _, topic := range topics {
		path := "/topics/" + url.PathEscape(topic.DlqTopic)
		if topic.IngestHeld {
			all = append(all, trouble{
				Text: v.text("The ingest is held because too many messages are PENDING. The records wait in Kafka."), Path: path, Name: topic.DlqTopic,
			})
		}
		if topic.Lost > 0 {
			all = append(all, trouble{v.text("Kafka deleted %d records before they were stored here.", topic.Lost), path, topic.DlqTopic})
		}
	}
	return all
}
