package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicIDs tells the incarnations of a topic apart. Offsets belong to an
// incarnation, but brokers before Kafka 4.2 commit them under the topic's name
// alone, so a late commit can land on the topic that was created anew, and a
// member that resumed there would skip its first records. Every commit of ours
// therefore names the incarnation in its metadata, and a commit that names
// another one is not resumed from: the topic is read from its start.
type topicIDs struct {
	mu sync.Mutex
	// committed are the incarnations named by the commits last fetched.
	committed map[place][16]byte
	// current are the incarnations at the last assignment, for brokers whose
	// fetch responses carry none (before Kafka 3.1).
	current map[string][16]byte
	client  *kgo.Client
}

func newTopicIDs() *topicIDs {
	return &topicIDs{committed: map[place][16]byte{}, current: map[string][16]byte{}}
}

func (t *topicIDs) opts() []kgo.Opt {
	return []kgo.Opt{kgo.OnOffsetsFetched(t.fetched), kgo.AdjustFetchOffsetsFn(t.adjust)}
}

// of returns the identity of the topic that the records were fetched from.
func (t *topicIDs) of(topic kgo.FetchTopic) [16]byte {
	if topic.TopicID != ([16]byte{}) {
		return topic.TopicID
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id := t.current[topic.Topic]; id != ([16]byte{}) {
		return id
	}
	// A broker that knows no topic ids at all (before Kafka 2.8): there the
	// name must do.
	sum := sha256.Sum256([]byte("topic name " + topic.Topic))
	return [16]byte(sum[:16])
}

const signaturePrefix = "dlq-topic-id="

// sign names each claim's incarnation in the commit's metadata. Partitions of
// one topic may differ, while only some of them have been read anew.
func sign(request *kmsg.OffsetCommitRequest, claims []*claim) {
	signatures := make(map[place]*string, len(claims))
	for _, c := range claims {
		signatures[c.place] = new(signaturePrefix + hex.EncodeToString(c.topicID[:]))
	}
	for i := range request.Topics {
		topic := &request.Topics[i]
		for j := range topic.Partitions {
			partition := &topic.Partitions[j]
			partition.Metadata = signatures[place{topic.Topic, partition.Partition}]
		}
	}
}

// fetched notes which incarnations the group's commits are for. A commit by
// another tool names none, and is obeyed.
func (t *topicIDs) fetched(_ context.Context, client *kgo.Client, response *kmsg.OffsetFetchResponse) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.client = client
	for _, group := range response.Groups {
		for _, topic := range group.Topics {
			for _, partition := range topic.Partitions {
				p := place{topic.Topic, partition.Partition}
				delete(t.committed, p)
				if partition.Metadata == nil {
					continue
				}
				signature, ok := strings.CutPrefix(*partition.Metadata, signaturePrefix)
				if id, err := hex.DecodeString(signature); ok && err == nil && len(id) == 16 {
					t.committed[p] = [16]byte(id)
				}
			}
		}
	}
	return nil
}

// adjust is called with the offsets to resume from, after fetched.
func (t *topicIDs) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	t.mu.Lock()
	client := t.client
	t.mu.Unlock()
	current, err := currentIDs(ctx, client, offsets)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for topic, partitions := range offsets {
		t.current[topic] = current[topic]
		for partition := range partitions {
			committed, signed := t.committed[place{topic, partition}]
			if signed && current[topic] != ([16]byte{}) && committed != current[topic] {
				partitions[partition] = kgo.NewOffset().AtStart()
			}
		}
	}
	return offsets, nil
}

// currentIDs asks a broker; the client's own metadata may be older.
func currentIDs(ctx context.Context, client *kgo.Client, topics map[string]map[int32]kgo.Offset) (map[string][16]byte, error) {
	ids := make(map[string][16]byte, len(topics))
	if len(topics) == 0 {
		return ids, nil // a request without topics would ask for all
	}
	request := kmsg.NewPtrMetadataRequest()
	for topic := range topics {
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = new(topic)
		request.Topics = append(request.Topics, wanted)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("topic ids: %w", err)
	}
	for _, topic := range response.Topics {
		if topic.Topic == nil {
			continue
		}
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && !kerr.IsRetriable(err) {
			return nil, fmt.Errorf("topic id of %s: %w", *topic.Topic, err)
		}
		ids[*topic.Topic] = topic.TopicID
	}
	return ids, nil
}
