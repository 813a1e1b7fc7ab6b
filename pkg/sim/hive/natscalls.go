package simhive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// gathering is a question to all clients of all nodes that answer a topic.
type gathering struct {
	Topic string        `json:"topic"`
	Limit time.Duration `json:"limit"`
	Local bool          `json:"local"` // clients of this NATS only
}

// keyed is a call about one record.
type keyed struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

// seeding is a gateway's attempt to fill the cluster's records for the first time.
type seeding struct {
	Node   string                     `json:"node"`
	Window time.Duration              `json:"window"`
	Race   bool                       `json:"race"`             // whoever comes second fails; else it waits
	Values map[string]json.RawMessage `json:"values,omitempty"` // at its end
}

// Records that say how far seeding is.
const (
	seedingKey = "seeding"         // by whom, until when
	counterKey = "account-counter" // is there once the records are filled
)

type seedingNow struct {
	Node  string    `json:"node"`
	Until time.Time `json:"until"`
}

func (n *natsServer) answerClient(ctx context.Context, call string, body json.RawMessage) (any, error) {
	switch call {
	case "gather":
		return n.gather(ctx, body)
	case "quorum":
		return n.quorum(), nil
	case "get":
		var k keyed
		if err := json.Unmarshal(body, &k); err != nil {
			return nil, err
		}
		found, ok := n.records.get(k.Key)
		if !ok || string(found.Value) == "null" {
			return nil, errKeyNotFound
		}
		return found.Value, nil
	case "list":
		var l listed
		if err := json.Unmarshal(body, &l); err != nil {
			return nil, err
		}
		return n.records.below(l.Prefix), nil
	case "put":
		return nil, n.put(body)
	case "seed-begin", "seed-end":
		return nil, n.lead(ctx, call, body)
	}
	return nil, fmt.Errorf("nats: no responders available for %s", call)
}

var errKeyNotFound = errors.New("nats: key not found")

func (n *natsServer) answerRoute(ctx context.Context, call string, body json.RawMessage) (any, error) {
	if n.program.recentFaults().NoPeers {
		return nil, errTimeout
	}
	switch call {
	case "ping":
		return "PONG", nil
	case "introduce":
		return introduced{Name: n.Name, Records: n.records.all()}, nil
	case "gather":
		return n.gather(ctx, body)
	case "replicate":
		var changed map[string]record
		err := json.Unmarshal(body, &changed)
		n.records.merge(changed)
		return nil, err
	case "seed-begin":
		return nil, n.seedBegin(ctx, body)
	case "seed-end":
		return nil, n.seedEnd(body)
	}
	return nil, fmt.Errorf("nats: no responders available for %s", call)
}

// gather asks every client that answers the topic, here and on the other nodes, and returns the answers. It is over
// when all have answered or gone, or when time is up: one that is silent costs all of it.
func (n *natsServer) gather(ctx context.Context, body json.RawMessage) ([]json.RawMessage, error) {
	var g gathering
	if err := json.Unmarshal(body, &g); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.Limit)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	answers := []json.RawMessage{}
	keep := func(more ...json.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, more...)
	}
	for _, client := range n.answering(g.Topic) {
		wait.Go(func() {
			var answer json.RawMessage
			if client.call(ctx, g.Topic, nil, &answer) == nil {
				keep(answer)
			}
		})
	}
	if !g.Local {
		g.Local = true
		for _, r := range n.connected() {
			wait.Go(func() {
				var more []json.RawMessage
				if r.link.call(ctx, "gather", g, &more) == nil {
					keep(more...)
				}
			})
		}
	}
	wait.Wait()
	return answers, nil
}

// answering are the clients of this NATS that answer a topic.
func (n *natsServer) answering(topic string) []*link {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*link
	for l, topics := range n.clients {
		if slices.Contains(topics, topic) {
			found = append(found, l)
		}
	}
	return found
}

// put writes a record, here and wherever it can be.
func (n *natsServer) put(body json.RawMessage) error {
	var k keyed
	if err := json.Unmarshal(body, &k); err != nil {
		return err
	}
	n.replicate(map[string]record{k.Key: n.records.put(k.Key, k.Value)})
	return nil
}

// replicate hands records to the other nodes' NATS and waits for those that answer.
func (n *natsServer) replicate(changed map[string]record) {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	var wait sync.WaitGroup
	for _, r := range n.connected() {
		wait.Go(func() { r.link.call(ctx, "replicate", changed, nil) }) // one that is gone reads them when it is back
	}
	wait.Wait()
}

// leaderName is whose word counts where several write at once: the first of those that are connected.
func (n *natsServer) leaderName() string {
	if routes := n.connected(); len(routes) > 0 && strings.Compare(routes[0].name, n.Name) < 0 {
		return routes[0].name
	}
	return n.Name
}

// lead lets the leader answer.
func (n *natsServer) lead(ctx context.Context, call string, body json.RawMessage) error {
	if !n.quorum() {
		return errTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	routes := n.connected()
	if leader := n.leaderName(); leader != n.Name && len(routes) > 0 && routes[0].name == leader {
		return routes[0].link.call(ctx, call, body, nil)
	}
	if call == "seed-begin" {
		return n.seedBegin(ctx, body)
	}
	return n.seedEnd(body)
}

// errWrongSequence is what a gateway gets that creates a record which another creates at the same time.
var errWrongSequence = errors.New("nats: wrong last sequence")

// seedBegin lets one gateway begin to fill the records. Where they are filled already, there is nothing to be first in.
func (n *natsServer) seedBegin(ctx context.Context, body json.RawMessage) error {
	var s seeding
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	for {
		begun, err := n.seedClaim(s)
		if begun || err != nil && s.Race {
			return err
		}
		select {
		case <-ctx.Done():
			return errTimeout
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// seedClaim returns true if the gateway may begin, and an error if another is at it.
func (n *natsServer) seedClaim(s seeding) (bool, error) {
	n.records.claim.Lock()
	defer n.records.claim.Unlock()
	if _, filled := n.records.get(counterKey); filled {
		return true, nil
	}
	var now seedingNow
	if kept, ok := n.records.get(seedingKey); ok && json.Unmarshal(kept.Value, &now) == nil {
		if now.Node != s.Node && time.Now().Before(now.Until) {
			return false, errWrongSequence
		}
	}
	value, err := json.Marshal(seedingNow{Node: s.Node, Until: time.Now().Add(s.Window + serverTimeout)})
	if err != nil {
		return false, err
	}
	n.replicate(map[string]record{seedingKey: n.records.put(seedingKey, value)})
	return true, nil
}

// seedEnd writes what a gateway has brought.
func (n *natsServer) seedEnd(body json.RawMessage) error {
	var s seeding
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	changed := map[string]record{}
	for key, value := range s.Values {
		changed[key] = n.records.put(key, value)
	}
	n.replicate(changed)
	return nil
}
