package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/kafkatest"
)

// Every request goes to two APIs at once with the same key, and one of the APIs is killed in the middle. A
// request that got no answer is repeated.
func TestLettersAreStoredOnceThoughAnAPIIsKilled(t *testing.T) {
	t.Parallel()
	const requests, letters = 60, 20
	s := newSystem(t, kafkatest.FakeCluster(t))
	s.startWorker() // it migrates the database
	killed := s.startAPI()
	bases := []string{s.base}
	s.startAPI()
	bases = append(bases, s.base)
	path := "/api/v1/dlq/" + s.dlqTopic + "/messages"

	var wait sync.WaitGroup
	answers := make([]sync.Map, requests)
	for i := range requests {
		if i == requests/2 {
			go func() { _ = killed.Process.Kill() }()
		}
		for n, base := range bases {
			wait.Go(func() {
				if body, status := handIn(base+path, i, letters); status == http.StatusOK || status == http.StatusCreated {
					answers[i].Store(n, body)
				}
			})
		}
		if i%4 == 3 {
			wait.Wait()
		}
	}
	wait.Wait()
	for i := range requests {
		body, status := handIn(bases[1]+path, i, letters)
		require.Equal(t, http.StatusOK, status, "it was stored, if not by the API that was killed then by the other: %s", body)
		answers[i].Range(func(_, answer any) bool {
			require.Equal(t, body, answer, "the same ids")
			return true
		})
	}
	require.Equal(t, requests*letters, s.rows("true"))
}

// handIn sends letters with a key. The status is 0 without an answer.
func handIn(url string, request, letters int) (body string, status int) {
	var list []string
	for i := range letters {
		list = append(list, fmt.Sprintf(`{"value": %d, "key": "k-%d"}`, request*1000+i, i%5))
	}
	post, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"messages": [`+strings.Join(list, ",")+`]}`))
	if err != nil {
		return err.Error(), 0
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Idempotency-Key", fmt.Sprintf("request-%d", request))
	client := http.Client{Timeout: 20 * time.Second}
	answer, err := client.Do(post)
	if err != nil {
		return err.Error(), 0
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error(), 0
	}
	return string(content), answer.StatusCode
}
