package wait_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/wait"
)

func TestBackoff(t *testing.T) {
	for name, tc := range map[string]struct {
		pauses wait.Backoff
		want   []time.Duration
	}{
		"doubles up to its limit": {wait.Backoff{First: 2, Max: 15}, []time.Duration{2, 4, 8, 15, 15}},
		"grows by a factor": {
			wait.Backoff{First: 2000, Max: 5000, Factor: 1.5}, []time.Duration{2000, 3000, 4500, 5000, 5000},
		},
		"without a limit it stays":      {wait.Backoff{First: 7}, []time.Duration{7, 7, 7, 7, 7}},
		"a limit below the first pause": {wait.Backoff{First: 7, Max: 3}, []time.Duration{7, 7, 7, 7, 7}},
	} {
		var got []time.Duration
		for range tc.want {
			got = append(got, tc.pauses.Next())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %d", name, got)
		}
	}
}

func TestJitter(t *testing.T) {
	pauses := wait.Backoff{First: time.Second, Max: 4 * time.Second, Jitter: 0.5}
	seen := map[time.Duration]bool{}
	for base := time.Second; len(seen) < 50; base = min(2*base, 4*time.Second) {
		got := pauses.Next()
		if got < base/2 || got > base*3/2 {
			t.Fatalf("got %s instead of about %s", got, base)
		}
		seen[got] = true
	}
}

func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		pauses := wait.Backoff{First: time.Second, Max: 3 * time.Second}
		for round := range 2 { // each begins with the first pause
			began := time.Now()
			for try := range pauses.Tries(ctx) {
				if try == 3 {
					break
				}
			}
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("round %d took %s", round, took)
			}
		}
		tries := 0
		for range pauses.Tries(ctx) {
			tries++
		}
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) || tries != 3 {
			t.Errorf("%d tries, and then %v", tries, context.Cause(ctx))
		}
		for try := range pauses.Tries(ctx) {
			tries += try
		}
		if tries != 4 {
			t.Error("it did not try once after all")
		}
	})
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancelCause(t.Context())
		began, why := time.Now(), errors.New("enough")
		if err := wait.Sleep(ctx, time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("it slept for %s, and then %v", time.Since(began), err)
		}
		time.AfterFunc(time.Second, func() { end(why) })
		if err := wait.Sleep(ctx, time.Minute); !errors.Is(err, why) || time.Since(began) != 61*time.Second {
			t.Errorf("it slept for %s, and then %v", time.Since(began), err)
		}
		if err := wait.Sleep(ctx, 0); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCondition(t *testing.T) {
	var told []string
	c := wait.Condition{Report: func(what, why string) { told = append(told, what+": "+why) }}
	for _, why := range []string{"refused", "refused", "silent", "refused"} {
		c.Pending("SSH", why)
	}
	c.Pending("hive", "refused")
	if want := []string{"SSH: refused", "SSH: silent", "SSH: refused", "hive: refused"}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}
