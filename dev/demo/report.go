package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// reportTimeout is how long the manager may take to store the dead letters.
const reportTimeout = 20 * time.Second

// storedLetter is a dead letter as the manager shows it.
type storedLetter struct {
	ID           string `json:"id"`
	ErrorMessage string `json:"error_message"`
	ErrorClass   string `json:"error_class"`
	CauseClass   string `json:"cause_class"`
	Origin       struct {
		Topic         string `json:"topic"`
		Partition     *int32 `json:"partition"`
		Offset        *int64 `json:"offset"`
		Family        string `json:"family"`
		ConsumerGroup string `json:"consumer_group"`
	} `json:"origin"`
	Pointed *struct {
		Value *struct {
			Size int `json:"size"`
		} `json:"value"`
		Error string `json:"error"`
	} `json:"pointed"`
}

// printReport shows what the manager read from the headers: one dead letter of each family,
// and one that only points to its record.
func (s *shop) printReport(ctx context.Context, o *Options) {
	if o.BaseURL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	letters, err := s.stored(ctx, o.BaseURL)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.out.line("\nThe manager at %s does not show the dead letters: %v", o.BaseURL, err)
		return
	}
	s.out.line("\nHow the manager reads them, one of each family:")
	for _, l := range letters {
		s.out.line("  %-23s %s", l.Origin.Family, l.describe())
	}
}

// describe is the origin and the error in one line.
func (l *storedLetter) describe() string {
	var b strings.Builder
	b.WriteString(l.Origin.Topic)
	if l.Origin.Partition != nil && l.Origin.Offset != nil {
		fmt.Fprintf(&b, "[%d] at %d", *l.Origin.Partition, *l.Origin.Offset)
	}
	if l.Origin.ConsumerGroup != "" {
		fmt.Fprintf(&b, ", group %s", l.Origin.ConsumerGroup)
	}
	fmt.Fprintf(&b, "\n    %-21s ", "")
	for _, class := range []string{l.ErrorClass, l.CauseClass} {
		if class != "" {
			b.WriteString(class[strings.LastIndex(class, ".")+1:] + ": ")
		}
	}
	b.WriteString(l.ErrorMessage)
	switch {
	case l.Pointed != nil && l.Pointed.Value != nil:
		fmt.Fprintf(&b, "\n    %-21s points to its record, of %d bytes", "", l.Pointed.Value.Size)
	case l.Pointed != nil:
		fmt.Fprintf(&b, "\n    %-21s points to its record: %s", "", l.Pointed.Error)
	}
	return b.String()
}

// stored waits until the manager has all dead letters of the start, and returns one of each
// family.
func (s *shop) stored(ctx context.Context, baseURL string) ([]storedLetter, error) {
	s.mu.Lock()
	want := 0
	for _, n := range s.dead {
		want += n
	}
	s.mu.Unlock()
	for {
		ids, err := listStored(ctx, baseURL)
		if err != nil {
			return nil, err
		}
		if len(ids) >= want {
			return oneOfEachFamily(ctx, baseURL, ids)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("it has %d of %d", len(ids), want)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func listStored(ctx context.Context, baseURL string) (ids []string, err error) {
	for _, r := range routes {
		var page struct {
			Messages []storedLetter `json:"messages"`
		}
		if err := getJSON(ctx, baseURL+"/api/v1/dlq/"+r.dlq+"?page_size=200", &page); err != nil {
			return nil, err
		}
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
		}
	}
	return ids, nil
}

func oneOfEachFamily(ctx context.Context, baseURL string, ids []string) ([]storedLetter, error) {
	found := map[string]storedLetter{}
	for _, id := range ids {
		var l storedLetter
		if err := getJSON(ctx, baseURL+"/api/v1/dlq/messages/"+id, &l); err != nil {
			return nil, err
		}
		found[fmt.Sprintf("%s %t", l.Origin.Family, l.Pointed != nil)] = l
	}
	letters := make([]storedLetter, 0, len(found))
	for _, l := range found {
		letters = append(letters, l)
	}
	slices.SortFunc(letters, func(a, b storedLetter) int { return strings.Compare(a.Origin.Family+a.ID, b.Origin.Family+b.ID) })
	return letters, nil
}

func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}
