package activities

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"dlqmanager/dlq"
)

// The SDK logs an activity error that is not benign as an error, with a stack trace.
func TestARefusalIsABenignError(t *testing.T) {
	t.Parallel()
	id := dlq.NewID()
	for err, benign := range map[error]bool{
		&dlq.NotRetryableError{ID: id}: true,
		&dlq.OwnedError{ID: id}:        true,
		dlq.MessageNotFound(id):        true,
		&dlq.DeliveryError{Category: dlq.CategoryAuth, Err: errors.New("refused")}: false,
	} {
		var application *temporal.ApplicationError
		require.ErrorAs(t, toTemporal(err), &application)
		require.Equal(t, benign, application.Category() == temporal.ApplicationErrorCategoryBenign, err)
	}
}
