package hive

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Lines of several logs come in the order of their times, whichever node was quicker; one without a time stays with those
// of its log.
func TestLogsAreMergedByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		m := newLogMerger(func(node, log, text string) { got = append(got, node+" "+log+" "+text) })
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			got = nil
		}
		m.add("n1", "nats", "starting")
		m.add("n1", "nats", "[77] 2026/11/29 14:50:22.500000 [INF] ready")
		m.add("n1", "nats", "  and more of it")
		time.Sleep(firstMergeTime / 2)
		m.add("n2", "hive", `time=2026-11-29T14:50:22.400Z level=INFO msg=early`)
		m.add("n2", "hive", "2026/11/29 14:50:23 INFO late")
		expect()
		time.Sleep(firstMergeTime / 2)
		expect(
			"n2 hive time=2026-11-29T14:50:22.400Z level=INFO msg=early", "n1 nats starting",
			"n1 nats [77] 2026/11/29 14:50:22.500000 [INF] ready", "n1 nats   and more of it", "n2 hive 2026/11/29 14:50:23 INFO late",
		)
		m.add("n2", "hive", "2026-11-29T16:50:25+02:00 second")
		m.add("n1", "nats", "2026/11/29 14:50:24 first")
		time.Sleep(mergeTime)
		expect("n1 nats 2026/11/29 14:50:24 first", "n2 hive 2026-11-29T16:50:25+02:00 second")
		m.add("n1", "nats", "last")
		m.flush()
		expect("n1 nats last")
	})
}
