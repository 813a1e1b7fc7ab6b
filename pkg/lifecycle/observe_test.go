package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
)

// observer tells another state of each node whenever it is asked.
type observer struct{ asked int }

func (o *observer) Running(_ context.Context, r *cluster.Record) map[string]string {
	o.asked++
	return map[string]string{r.Nodes[0].Name: fmt.Sprintf("cloning %d%%", 10*o.asked)}
}

// While machines are made, it is told how far they are, if somebody looks on; nobody is asked otherwise, or afterwards.
func TestWhatIsDoneWithMachinesIsToldToWhoLooksOn(t *testing.T) {
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			asked, events := &observer{}, &progress.Memory{}
			u := &up{Job: &Job{
				Record:  &cluster.Record{Nodes: cluster.Nodes{{Name: "ci-1"}}},
				Watched: watched, Deploy: deploy.Capable{Observe: asked},
			}}
			ended := u.observe(t.Context(), events)
			time.Sleep(2*observeInterval + time.Millisecond)
			synctest.Wait()
			ended()
			time.Sleep(observeInterval)
			want := 0
			if watched {
				want = 2
			}
			if got := events.Events(); asked.asked != want || len(got) != want || want > 0 && got[1].Message != "cloning 20%" {
				t.Errorf("watched %v: asked %d times, told %+v", watched, asked.asked, got)
			}
		})
	}
}
