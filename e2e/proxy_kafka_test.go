package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// newKafkaProxy makes a proxy for a cluster of one broker. Kafka's clients connect to the addresses in the
// broker's answers, so the proxy replaces these addresses by its own address. Each client can have a proxy
// of its own, whatever address the broker advertises.
func newKafkaProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := newProxy(t, target)
	p.read = p.readKafka
	return p
}

func (p *proxy) readKafka(l *link) (fromClient, fromServer reader) {
	var mu sync.Mutex
	asked := map[uint32]kmsg.Response{} // expected answers that name brokers, by correlation id
	fromClient = func() ([]byte, error) {
		frame, err := readFrame(l.client)
		if err != nil {
			return nil, err
		}
		key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
		switch kmsg.Key(key) {
		case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster:
			answer := kmsg.ResponseForKey(key)
			answer.SetVersion(version)
			mu.Lock()
			asked[binary.BigEndian.Uint32(frame[8:])] = answer
			mu.Unlock()
		default:
		}
		return frame, nil
	}
	fromServer = func() ([]byte, error) {
		frame, err := readFrame(l.server)
		if err != nil {
			return nil, err
		}
		correlation := binary.BigEndian.Uint32(frame[4:])
		mu.Lock()
		answer := asked[correlation]
		delete(asked, correlation)
		mu.Unlock()
		if answer == nil {
			return frame, nil
		}
		return p.renamed(frame, answer)
	}
	return fromClient, fromServer
}

// renamed returns the answer with the address of the proxy instead of the broker's address.
func (p *proxy) renamed(frame []byte, answer kmsg.Response) ([]byte, error) {
	header := 8 // size and correlation id
	if answer.IsFlexible() {
		header++ // no tags
	}
	if err := answer.ReadFrom(frame[header:]); err != nil {
		return nil, fmt.Errorf("an answer to %s: %w", kmsg.NameForKey(answer.Key()), err)
	}
	host, text, _ := net.SplitHostPort(p.address)
	number, _ := strconv.Atoi(text)
	at := int32(number)
	switch r := answer.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = host, at
		}
	case *kmsg.FindCoordinatorResponse:
		r.Host, r.Port = host, at
		for i := range r.Coordinators {
			r.Coordinators[i].Host, r.Coordinators[i].Port = host, at
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = host, at
		}
	}
	renamed := answer.AppendTo(append([]byte{}, frame[:header]...))
	binary.BigEndian.PutUint32(renamed, uint32(len(renamed)-4))
	return renamed, nil
}

// readFrame reads a request or an answer, including its size field.
func readFrame(from io.Reader) ([]byte, error) {
	const smallest, largest = 4, 128 << 20
	size := make([]byte, 4)
	if _, err := io.ReadFull(from, size); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size)
	if n < smallest || n > largest {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size)
	_, err := io.ReadFull(from, frame[4:])
	return frame, err
}
