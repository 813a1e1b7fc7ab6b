package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Group is hosts in node order.
type Group []*Host

// Each calls fn for all hosts at once and waits for all: the failure of one never cancels another. The errors are
// joined in node order, each with its node's name before it, once; errors.Is and errors.As see through.
func (g Group) Each(ctx context.Context, fn func(context.Context, *Host) error) error {
	errs := make([]error, len(g))
	var all sync.WaitGroup
	for i, h := range g {
		all.Go(func() {
			if err := fn(ctx, h); err != nil {
				errs[i] = &nodeError{h.Name(), err}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Run runs cmd on all hosts at once and returns one Result per host in node order, whatever happened, besides the
// errors as Each joins them. Stdin is read to its end first, and each host gets all of it.
func (g Group) Run(ctx context.Context, cmd Command) ([]Result, error) {
	var input []byte
	if cmd.Stdin != nil {
		var err error
		if input, err = io.ReadAll(cmd.Stdin); err != nil {
			return nil, fmt.Errorf("reading the standard input of %s: %w", cmd.short(), err)
		}
	}
	if onLine := cmd.OnLine; onLine != nil {
		var mu sync.Mutex
		cmd.OnLine = func(stream, line string) {
			mu.Lock()
			defer mu.Unlock()
			onLine(stream, line)
		}
	}
	results := make([]Result, len(g))
	err := g.Each(ctx, func(ctx context.Context, h *Host) (err error) {
		own := cmd
		own.Stdin = bytes.NewReader(input)
		results[slices.Index(g, h)], err = h.Run(ctx, own)
		return err
	})
	return results, err
}
