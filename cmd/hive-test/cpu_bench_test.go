package main_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/PID/stat: USER_HZ is 100 on all of Linux's architectures that matter here.
const tick = 10 * time.Millisecond

// processors is how many processors share the work.
func processors() time.Duration { return time.Duration(runtime.NumCPU()) }

// sample is CPU time spent until a moment: by the program, by the hosts, and by all processors together in idling.
type sample struct {
	at                   time.Time
	program, hosts, idle time.Duration
}

// watcher samples the CPU time of a program and of the simulator's hosts while the program runs. Where there is no
// /proc it sees nothing, and everything counts as the program's.
type watcher struct {
	samples    []sample
	stop, done chan struct{}
}

func watch(program, simulator int) *watcher {
	w := &watcher{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(25 * time.Millisecond)
		defer ticker.Stop()
		for {
			if s := look(program, simulator); s.program > 0 { // 0: it has ended
				w.samples = append(w.samples, s)
			}
			select {
			case <-w.stop:
				return
			case <-ticker.C:
			}
		}
	}()
	return w
}

func (w *watcher) end() {
	close(w.stop)
	<-w.done
}

func (w *watcher) last() sample {
	if len(w.samples) == 0 {
		return sample{}
	}
	return w.samples[len(w.samples)-1]
}

// hosts is the hosts' part of the wall time between two moments.
func (w *watcher) hosts(begin, end time.Time) time.Duration {
	var first, last sample
	for _, s := range w.samples {
		if !s.at.After(begin) || first.at.IsZero() {
			first = s
		}
		if !s.at.After(end) {
			last = s
		}
	}
	return time.Duration(float64(end.Sub(begin)) * share(first, last))
}

// look takes a sample now.
func look(program, simulator int) sample {
	self, _ := cpuOf(program)
	return sample{at: time.Now(), program: self, hosts: cpuBelow(simulator), idle: idle()}
}

// share is the hosts' part of the time between two samples, from 0 to 1. Time in which processors idled is not theirs;
// the rest is shared out by what they and the program have computed in it.
func share(first, last sample) float64 {
	wall, idle := last.at.Sub(first.at), (last.idle-first.idle)/processors()
	hosts, program := last.hosts-first.hosts, last.program-first.program
	if hosts <= 0 || idle >= wall {
		return 0
	}
	return (1 - idle.Seconds()/wall.Seconds()) * hosts.Seconds() / (hosts + program).Seconds()
}

// idle is how long all processors together had nothing to do, since the system's start (proc(5): idle and iowait).
func idle() time.Duration {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 6 {
		return 0
	}
	ticks := 0
	for _, field := range fields[4:6] {
		n, _ := strconv.Atoi(field)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// cpuOf returns what a process itself has computed, and what its ended children have.
func cpuOf(pid int) (self, ended time.Duration) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0
	}
	// proc(5): the name may hold anything, so fields are counted from its end; utime, stime, cutime and cstime are 14
	// to
	// 17.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 15 || fields[0] == "Z" {
		return 0, 0
	}
	ticks := func(i int) time.Duration {
		n, _ := strconv.Atoi(fields[i])
		return time.Duration(n) * tick
	}
	return ticks(11) + ticks(12), ticks(13) + ticks(14)
}

// cpuBelow returns what all descendants of a process have computed: the hosts, where it is the simulator.
func cpuBelow(pid int) time.Duration {
	var sum time.Duration
	lists, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(raw)) {
			if n, err := strconv.Atoi(child); err == nil {
				self, ended := cpuOf(n)
				sum += self + ended + cpuBelow(n)
			}
		}
	}
	return sum
}
