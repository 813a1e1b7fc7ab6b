package simhive

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
)

// errLinkClosed means that the other end has gone, and will not answer any more.
var errLinkClosed = errors.New("nats: connection closed")

// errTimeout is what a client of NATS says when nothing answers.
var errTimeout = errors.New("nats: timeout")

// frame is one line on a link: a call, or the answer to the call of that number.
type frame struct {
	ID    uint64          `json:"id"`
	Call  string          `json:"call,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	Error string          `json:"error,omitempty"`
}

// answering is how one end answers the other's calls.
type answering func(ctx context.Context, call string, body json.RawMessage) (any, error)

// link is a connection between two of hive's processes. Both ends may call at any time. Safe for concurrent use.
type link struct {
	conn   net.Conn
	answer answering
	closed chan struct{}

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan frame // nil once closed
}

// newLink serves a connection until it ends; reader is what may have read ahead of it.
func newLink(conn net.Conn, reader *bufio.Reader, answer answering) *link {
	l := &link{conn: conn, answer: answer, closed: make(chan struct{}), waiting: map[uint64]chan frame{}}
	go l.read(reader)
	return l
}

func (l *link) read(reader *bufio.Reader) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer l.close()
	for decoder := json.NewDecoder(reader); ; {
		var f frame
		if decoder.Decode(&f) != nil {
			return
		}
		if f.Call != "" {
			go l.respond(ctx, f)
			continue
		}
		l.mu.Lock()
		waiting, ok := l.waiting[f.ID]
		delete(l.waiting, f.ID)
		l.mu.Unlock()
		if ok {
			waiting <- f // it has room for one
		}
	}
}

func (l *link) respond(ctx context.Context, f frame) {
	answer := frame{ID: f.ID}
	value, err := l.answer(ctx, f.Call, f.Body)
	if err == nil {
		answer.Body, err = json.Marshal(value)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	l.send(answer)
}

func (l *link) send(f frame) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.conn.Write(append(line, '\n'))
	return err
}

// call asks the other end and reads its answer into out, which may be nil.
func (l *link) call(ctx context.Context, name string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer := make(chan frame, 1)
	l.mu.Lock()
	if l.waiting == nil {
		l.mu.Unlock()
		return errLinkClosed
	}
	l.next++
	id := l.next
	l.waiting[id] = answer
	l.mu.Unlock()
	if err := l.send(frame{ID: id, Call: name, Body: body}); err != nil {
		l.close()
		return errLinkClosed
	}
	select {
	case f := <-answer:
		if f.Error != "" {
			return errors.New(f.Error)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(f.Body, out)
	case <-l.closed:
		return errLinkClosed
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.waiting, id)
		l.mu.Unlock()
		return errTimeout
	}
}

func (l *link) close() {
	l.conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting != nil {
		l.waiting = nil
		close(l.closed)
	}
}
