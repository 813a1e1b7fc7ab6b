package api

import (
	"errors"
	"sync"
)

// each runs n calls at once, lets all of them end, and joins their errors in order.
func each(n int, call func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = call(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}
