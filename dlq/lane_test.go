package dlq_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestEachKeyHashIsInOneLaneOfAJob(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for lanes := 1; lanes <= 64; lanes++ {
		var messages [dlq.Buckets]int64
		for range random.IntN(3000) {
			messages[random.IntN(random.IntN(dlq.Buckets)+1)]++
		}
		shares := dlq.ShareBuckets(&messages, lanes)
		require.Len(t, shares, lanes)
		for hash := range int32(2 * dlq.Buckets) {
			found := 0
			for number, buckets := range shares {
				if lane := (&dlq.Lane{Number: number, Buckets: buckets}); lane.Has(hash) {
					found++
				}
			}
			require.Equal(t, 1, found, "hash %d of %d lanes: %v", hash, lanes, shares)
		}
	}
}

func TestLanesHaveAboutAsManyMessagesEach(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	fewKeys := func(keys int) (messages [dlq.Buckets]int64) {
		for range keys {
			messages[random.IntN(dlq.Buckets)] += 100
		}
		return messages
	}
	oneKey := fewKeys(1000)
	oneKey[500] = 100_000
	for name, test := range map[string]struct {
		messages [dlq.Buckets]int64
		lanes    int
		atMost   float64 // of the fair share
	}{
		"none":                        {fewKeys(0), 4, 1},
		"a thousand keys":             {fewKeys(1000), 4, 1.02},
		"a thousand keys, many lanes": {fewKeys(1000), 16, 1.1},
		"a hundred keys":              {fewKeys(100), 4, 1.1},
		"fewer keys than lanes":       {fewKeys(3), 8, 4},
		"half of them have one key":   {oneKey, 4, 2.1},
		"as many lanes as buckets":    {fewKeys(1000), dlq.Buckets, 10},
	} {
		all, most := int64(0), int64(0)
		for _, share := range dlq.ShareBuckets(&test.messages, test.lanes) {
			require.LessOrEqual(t, share.First, share.Last, name)
			sum := int64(0)
			for bucket := share.First; bucket <= share.Last; bucket++ {
				sum += test.messages[bucket]
			}
			all, most = all+sum, max(most, sum)
		}
		require.LessOrEqual(t, float64(most*int64(test.lanes)), test.atMost*float64(all), name)
	}
	for _, share := range dlq.ShareBuckets(&[dlq.Buckets]int64{}, 3) {
		require.InDelta(t, dlq.Buckets/3, share.Last-share.First, 2, "without messages, the lanes have as many buckets")
	}
}
