package hive

import (
	"fmt"
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

// A log without any time is as old as its file, and the lines of a stack trace stay with the one before them, whatever others
// write meanwhile.
func TestLinesWithoutTimeStayWithTheirLog(t *testing.T) {
	var got []string
	m := newLogMerger(func(node, log, text string) { got = append(got, log+" "+text) })
	for _, title := range []string{"@1764427820 /home/u/hive/logs/init.log", "@1764427829 /home/u/hive/logs/nats.log"} {
		at, log := logTitle(title)
		m.written("n1", log, at)
	}
	m.add("n1", "nats", "2025/11/29 14:50:25 before")
	m.add("n1", "nats", "panic: no reason")
	m.add("n1", "nats", "goroutine 1 [running]:")
	m.add("n1", "init", "initialized")
	m.add("n1", "init", "formed")
	m.add("n2", "hive", "2025/11/29 14:50:26 after")
	m.flush()
	m.add("n2", "hive", "2025/11/29 14:50:28 later")
	m.add("n1", "nats", "\tmain.go:7")
	m.add("n1", "nats", "2025/11/29 14:50:29 at last")
	m.flush()
	want := []string{
		"init initialized", "init formed", "nats 2025/11/29 14:50:25 before", "nats panic: no reason", "nats goroutine 1 [running]:",
		"hive 2025/11/29 14:50:26 after", "nats \tmain.go:7", "hive 2025/11/29 14:50:28 later", "nats 2025/11/29 14:50:29 at last",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLogTitle(t *testing.T) {
	for title, want := range map[string]string{
		"/home/u/hive/logs/nats.log": "0 nats", "nats.log": "0 nats", "@12 /x/init.log": "12 init", "@x /x/y.log": "0 y",
	} {
		at, log := logTitle(title)
		seconds := int64(0)
		if !at.IsZero() {
			seconds = at.Unix()
		}
		if got := fmt.Sprintf("%d %s", seconds, log); got != want {
			t.Errorf("%s: got %s, want %s", title, got, want)
		}
	}
}
