package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// signatureOf computes the signature as the specification of Standard Webhooks describes it.
func signatureOf(t *testing.T, secret string, h http.Header, body []byte) string {
	t.Helper()
	key := []byte(secret)
	if len(secret) > 6 && secret[:6] == "whsec_" {
		var err error
		key, err = base64.StdEncoding.DecodeString(secret[6:])
		require.NoError(t, err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("Webhook-Id") + "." + h.Get("Webhook-Timestamp") + "." + string(body)))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func isRefusal(err error, category dlq.Category) bool {
	var refused *dlq.DeliveryError
	return errors.As(err, &refused) && refused.Category == category
}

func connectionCounter(n *atomic.Int32) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
}
