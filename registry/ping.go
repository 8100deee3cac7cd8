package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"
)

// Ping lists the subjects. Every registry does that for everyone who may read schemas.
func (d *Decoder) Ping(ctx context.Context) error {
	_, err := d.client.Subjects(ctx)
	var response *sr.ResponseError
	var request *url.Error
	switch {
	case err == nil, errors.As(err, new(*http.MaxBytesError)): // it has many
		return nil
	case errors.As(err, &response) && response.StatusCode == http.StatusNotFound, strings.HasPrefix(err.Error(), "unable to decode ok response"):
		return errors.New("it is not a schema registry: it does not list subjects")
	case errors.As(err, &response):
		return unavailable(err)
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout
	case errors.As(err, &request): // the caller knows the URL
		return request.Err
	}
	return fmt.Errorf("ask for the subjects: %w", err)
}
