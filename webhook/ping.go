package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"dlqmanager/dlq"
)

// Ping asks an endpoint for its headers, with neither a message nor credentials. Its error
// says why the endpoint cannot be reached. Most endpoints refuse such a request, so any answer will do,
// but for the answer of a proxy whose server is away.
func (p *Publisher) Ping(ctx context.Context, name string) error {
	t := p.targets[dlq.EndpointTarget(name)]
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, t.url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", t.userAgent)
	response, err := t.transport.RoundTrip(request)
	if err != nil { // nothing was to be sent
		return errors.New(strings.TrimPrefix(t.failure(err, false).Error(), "send to "+t.name+": "))
	}
	_ = response.Body.Close()
	if isAway(response.StatusCode) {
		return fmt.Errorf("it answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return nil
}
