package demo

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Receipts is the topic of the shop's service that takes messages over HTTP.
const Receipts = "shop.receipts"

const (
	receiptsDLQ = Receipts + ".dlq"
	// receiptLetters is how many dead letters the service has at the start.
	receiptLetters = 12
	// signatureAge is how old a request may be, so that a copy of it is useless later.
	signatureAge = 5 * time.Minute
)

// ReceiptsSecret returns the file of the secret with which the manager signs requests to the
// service. It makes the file if it is missing.
func ReceiptsSecret(dir string) (path string, err error) {
	path = filepath.Join(dir, "receipts-secret")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	key := make([]byte, 24)
	_, _ = rand.Read(key) // never fails
	return path, os.WriteFile(path, []byte("whsec_"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600)
}

// receipts is the service. It answers as a consumer over HTTP should: 204 for a receipt that it has
// printed, now or before; 489 for a receipt that no retry mends; 503 for a receipt that it can print later.
type receipts struct {
	secret []byte
	say    func(format string, args ...any)

	mu      sync.Mutex
	printed map[string]bool // by idempotency key
	tried   map[int]bool
}

// serve listens until ctx ends.
func (r *receipts) serve(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("the shop's receipts: %w; set DLQ_DEV_RECEIPTS_PORT for both make run and make demo", err)
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP takes one receipt.
func (r *receipts) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(io.LimitReader(request.Body, 1<<20))
	if err != nil {
		return
	}
	status, reason := r.print(request.Header, body)
	r.say("receipt %s: %d %s", request.Header.Get("Dlq-Key"), status, reason)
	if status == 489 {
		w.Header().Set("Upstash-Nonretryable-Error", "true")
	}
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_, _ = io.WriteString(w, reason)
	}
}

func (r *receipts) print(h http.Header, body []byte) (status int, reason string) {
	if !r.isSigned(h, body) {
		return 489, "the signature is wrong"
	}
	var receipt struct {
		Order int `json:"order"`
		Cents int `json:"cents"`
	}
	if json.Unmarshal(body, &receipt) != nil || receipt.Cents <= 0 {
		return 489, "a receipt needs an amount"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch id := h.Get("Idempotency-Key"); {
	case r.printed[id]:
		return http.StatusNoContent, "again"
	case receipt.Order%5 == 0 && !r.tried[receipt.Order]:
		r.tried[receipt.Order] = true
		return http.StatusServiceUnavailable, "the printer is warming up"
	default:
		r.printed[id] = true
		return http.StatusNoContent, "printed"
	}
}

// isSigned checks the signature of Standard Webhooks.
func (r *receipts) isSigned(h http.Header, body []byte) bool {
	at, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(at, 0)).Abs() > signatureAge {
		return false
	}
	mac := hmac.New(sha256.New, r.secret)
	_, _ = fmt.Fprintf(mac, "%s.%d.%s", h.Get("Webhook-Id"), at, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for signature := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(signature), []byte(want)) {
			return true
		}
	}
	return false
}

// openReceipts prepares the service, and produces its first dead letters.
func (o *Options) openReceipts(ctx context.Context, client *kgo.Client, first int, say func(string, ...any)) (*receipts, error) {
	content, err := os.ReadFile(o.ReceiptsSecret)
	if err != nil {
		return nil, fmt.Errorf("the shop's receipts: %w; is make run running?", err)
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(content)), "whsec_"))
	if err != nil {
		return nil, fmt.Errorf("the shop's receipts: %s: %w", o.ReceiptsSecret, err)
	}
	var letters []*kgo.Record
	for n := first; n < first+receiptLetters; n++ {
		cents := 100 + n
		if n%6 == 0 {
			cents = 0
		}
		letters = append(letters, &kgo.Record{
			Topic: receiptsDLQ, Key: fmt.Appendf(nil, "order-%d", n), Value: fmt.Appendf(nil, `{"order":%d,"cents":%d}`, n, cents),
			Headers: []kgo.RecordHeader{
				text("content-type", "application/json"), text("original_topic", Receipts), text("error", "the printer is out of paper"),
			},
		})
	}
	if err := client.ProduceSync(ctx, letters...).FirstErr(); err != nil {
		return nil, fmt.Errorf("produce the dead letters of receipts: %w", err)
	}
	return &receipts{secret: secret, say: say, printed: map[string]bool{}, tried: map[int]bool{}}, nil
}
