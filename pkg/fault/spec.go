// Package fault is what goes wrong on purpose on the nodes of a cluster, for suites that must bear it: slow links,
// partitions, processes that hang, full disks. A fault always has an end, and the node itself sees to it: what heals it
// is armed there before it is applied.
package fault

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what a fault is about.
type Kind string

// The kinds of faults.
const (
	Link      Kind = "link"
	Partition Kind = "partition"
	Process   Kind = "process"
	Disk      Kind = "disk"
	Clock     Kind = "clock"
	Power     Kind = "power"
)

// What is done to the power of a node.
const (
	Off   = "off"
	Reset = "reset"
)

// For how long a fault lasts that says nothing, and at most.
const (
	DefaultTime = time.Minute
	MostTime    = 24 * time.Hour
)

// Spec is one fault. Only the fields of its kind are set.
type Spec struct {
	Kind Kind

	// Of a link: what the node sends to other nodes is Delay late, Jitter more or less, and at most Rate bits a second;
	// of what it gets from them, Loss in ten thousand packets are lost. Up and Down: nothing gets through for Down
	// after each Up.
	Delay, Jitter time.Duration
	Loss          int
	Rate          int64
	Up, Down      time.Duration

	// Of a partition: nodes of one group do not reach those of the others. Nodes in no group reach all.
	Groups [][]string

	Act     string // of a process: pause or kill; of power: off or reset
	Service string // of hive

	Path string // of a disk: a directory on the file system that is filled
	Free int64  // bytes that are left

	Step time.Duration // of a clock
}

// Profile is a link fault with a name.
type Profile struct {
	Name string
	Spec Spec
	Of   string // what it is like
}

// Profiles returns all of them, the best link first.
func Profiles() []Profile {
	const kbit, mbit = 1000, 1000 * 1000
	ms := time.Millisecond
	return []Profile{
		link("lan", "a switch in the same room", Spec{Delay: 1 * ms, Rate: 1000 * mbit}),
		link("wan", "another city", Spec{Delay: 50 * ms, Jitter: 10 * ms, Loss: 10, Rate: 100 * mbit}),
		link("lte", "mobile, at the edge of its cell", Spec{Delay: 100 * ms, Jitter: 30 * ms, Loss: 500, Rate: 1 * mbit}),
		link("satcom", "a geostationary satellite", Spec{Delay: 600 * ms, Jitter: 50 * ms, Loss: 200, Rate: 512 * kbit}),
		link("hf", "short-wave radio", Spec{Delay: 2000 * ms, Jitter: 200 * ms, Loss: 1000, Rate: 9600}),
		link("flapping", "10 s up, 5 s down, again and again", Spec{Up: 10 * time.Second, Down: 5 * time.Second}),
	}
}

func link(name, of string, s Spec) Profile {
	s.Kind = Link
	return Profile{name, s, of}
}

// grammar is what a fault may look like, for messages.
const grammar = `link:delay=100ms,jitter=10ms,loss=1%,rate=1mbit   link:up=10s,down=5s
partition:2   partition:1,2|3
process:pause=nats   process:kill=nats
disk:/var/lib/hive   disk:/var/lib/hive,free=10MB
clock:+1h   clock:-30m
power:off   power:reset`

// Forms returns one line for each form of a fault, profiles included.
func Forms() string {
	names := make([]string, 0, len(Profiles()))
	for _, p := range Profiles() {
		names = append(names, p.Name)
	}
	return strings.Join(names, "   ") + "\n" + grammar
}

// FormError is a text that is no fault. Its hint lists those that there are.
type FormError struct{ Err error }

func (e *FormError) Error() string { return e.Err.Error() }
func (e *FormError) Unwrap() error { return e.Err }

// Hint lists what there is.
func (e *FormError) Hint() string { return "there are\n" + Forms() }

// Parse reads a fault as users write it: the name of a profile, or KIND:WHAT.
func Parse(text string) (Spec, error) {
	s, err := parse(strings.TrimSpace(text))
	if err != nil {
		return Spec{}, &FormError{fmt.Errorf("fault %q: %w", text, err)}
	}
	return s, nil
}

func parse(text string) (Spec, error) {
	kind, what, found := strings.Cut(text, ":")
	if !found {
		for _, p := range Profiles() {
			if strings.EqualFold(p.Name, text) {
				return p.Spec, nil
			}
		}
		return Spec{}, errors.New("there is no such profile")
	}
	read, known := map[Kind]func(string) (Spec, error){
		Link: parseLink, Partition: parsePartition, Process: parseProcess, Disk: parseDisk, Clock: parseClock,
		Power: parsePower,
	}[Kind(kind)]
	if !known {
		return Spec{}, fmt.Errorf("there is no kind %q", kind)
	}
	s, err := read(what)
	s.Kind = Kind(kind)
	return s, err
}

// fields splits KEY=VALUE,KEY=VALUE, each key once.
func fields(text string, keys ...string) (map[string]string, error) {
	values := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(part, "=")
		_, twice := values[key]
		switch {
		case !found || value == "":
			return nil, fmt.Errorf("%q is not KEY=VALUE", part)
		case !slices.Contains(keys, key):
			return nil, fmt.Errorf("%q is not one of %s", key, strings.Join(keys, ", "))
		case twice:
			return nil, fmt.Errorf("%s is there twice", key)
		}
		values[key] = value
	}
	return values, nil
}

func parseLink(text string) (s Spec, err error) {
	values, err := fields(text, "delay", "jitter", "loss", "rate", "up", "down")
	if err != nil {
		return s, err
	}
	for key, to := range map[string]*time.Duration{
		"delay": &s.Delay, "jitter": &s.Jitter, "up": &s.Up, "down": &s.Down,
	} {
		if value, given := values[key]; given {
			if *to, err = parseSpan(value); err != nil {
				return s, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if value, given := values["loss"]; given {
		if s.Loss, err = parsePercent(value); err != nil {
			return s, fmt.Errorf("loss: %w", err)
		}
	}
	if value, given := values["rate"]; given {
		if s.Rate, err = parseRate(value); err != nil {
			return s, fmt.Errorf("rate: %w", err)
		}
	}
	switch {
	case s.Jitter > s.Delay:
		return s, errors.New("jitter is more than delay: what is sent cannot be there before it is sent")
	case (s.Up > 0) != (s.Down > 0):
		return s, errors.New("up and down belong together")
	case s.Down > 0 && (s.Up < 100*time.Millisecond || s.Down < 100*time.Millisecond):
		return s, errors.New("up and down are 100ms at least")
	}
	return s, nil
}

// parseSpan reads a positive duration that is no more than a minute where a link is late.
func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no duration, like 100ms or 2s", text)
	case d < time.Millisecond || d > time.Minute:
		return 0, fmt.Errorf("%s is not between 1ms and 1m", text)
	}
	return d, nil
}

// parsePercent reads a percentage as ten-thousandths.
func parsePercent(text string) (int, error) {
	number, found := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	n := int(percent*100 + 0.5)
	if !found || err != nil || percent > 100 || n < 1 {
		return 0, fmt.Errorf("%q is no percentage from 0.01%% to 100%%, like 1%% or 0.5%%", text)
	}
	return n, nil
}

var ratePattern = regexp.MustCompile(`^(\d{1,9})(bit|kbit|mbit|gbit)$`)

// parseRate reads bits a second. htb cannot do with less than a packet in some seconds.
func parseRate(text string) (int64, error) {
	found := ratePattern.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%q is no rate, like 9600bit, 512kbit, 10mbit or 1gbit", text)
	}
	n, _ := strconv.ParseInt(found[1], 10, 64) // of nine digits
	n *= map[string]int64{"bit": 1, "kbit": 1000, "mbit": 1000 * 1000, "gbit": 1000 * 1000 * 1000}[found[2]]
	if n < 1000 || n > 100*1000*1000*1000 {
		return 0, fmt.Errorf("%s is not between 1kbit and 100gbit", text)
	}
	return n, nil
}

func parsePartition(text string) (s Spec, err error) {
	seen := map[string]bool{}
	for group := range strings.SplitSeq(text, "|") {
		var nodes []string
		for node := range strings.SplitSeq(group, ",") {
			node = strings.TrimSpace(node)
			if node == "" {
				return s, errors.New("a group names no node: groups of nodes are separated by |, like 1,2|3")
			}
			if seen[node] {
				return s, fmt.Errorf("node %s is there twice", node)
			}
			seen[node] = true
			nodes = append(nodes, node)
		}
		s.Groups = append(s.Groups, nodes)
	}
	return s, nil
}

// serviceName is a service of hive: node scripts know which there are.
var serviceName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

func parseProcess(text string) (s Spec, err error) {
	act, service, _ := strings.Cut(text, "=")
	if act != "pause" && act != "kill" {
		return s, fmt.Errorf("%q is neither pause=SERVICE nor kill=SERVICE", text)
	}
	if !serviceName.MatchString(service) {
		return s, fmt.Errorf(
			"%q is no name of a service, like nats, predastore, viperblock, vpcd, awsgw, daemon or ui", service,
		)
	}
	return Spec{Act: act, Service: service}, nil
}

func parseDisk(text string) (s Spec, err error) {
	where, rest, more := strings.Cut(text, ",")
	if !path.IsAbs(where) || path.Clean(where) != where || strings.ContainsAny(where, "\x00\n\t") {
		return s, fmt.Errorf("%q is no absolute path of a directory", where)
	}
	s.Path = where
	if !more {
		return s, nil
	}
	values, err := fields(rest, "free")
	if err != nil {
		return s, err
	}
	if s.Free, err = parseSize(values["free"]); err != nil {
		return s, fmt.Errorf("free: %w", err)
	}
	return s, nil
}

var sizePattern = regexp.MustCompile(`^(\d{1,9})(B|KB|MB|GB)?$`)

func parseSize(text string) (int64, error) {
	found := sizePattern.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%q is no size, like 0, 512KB, 10MB or 1GB", text)
	}
	n, _ := strconv.ParseInt(found[1], 10, 64) // of nine digits
	return n * map[string]int64{"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[found[2]], nil
}

func parseClock(text string) (s Spec, err error) {
	if !strings.HasPrefix(text, "+") && !strings.HasPrefix(text, "-") {
		return s, fmt.Errorf("%q has no sign: +1h is later, -30m earlier", text)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d%time.Second != 0 || d == 0 || d.Abs() > 366*24*time.Hour {
		return s, fmt.Errorf("%q is no step of whole seconds, a year at most, like +1h or -30m", text)
	}
	return Spec{Step: d}, nil
}

func parsePower(text string) (s Spec, err error) {
	if text != Off && text != Reset {
		return s, fmt.Errorf("%q is neither off nor reset: `heal` switches on", text)
	}
	return Spec{Act: text}, nil
}

// String is the fault as Parse reads it.
func (s Spec) String() string {
	what := ""
	switch s.Kind {
	case Link:
		what = s.link()
	case Partition:
		groups := make([]string, len(s.Groups))
		for i, group := range s.Groups {
			groups[i] = strings.Join(group, ",")
		}
		what = strings.Join(groups, "|")
	case Process:
		what = s.Act + "=" + s.Service
	case Disk:
		what = s.Path
		if s.Free > 0 {
			what += ",free=" + size(s.Free)
		}
	case Clock:
		what = shortSpan(s.Step)
		if s.Step > 0 {
			what = "+" + what
		}
	case Power:
		what = s.Act
	}
	return string(s.Kind) + ":" + what
}

func (s Spec) link() string {
	var parts []string
	add := func(key, value string, given bool) {
		if given {
			parts = append(parts, key+"="+value)
		}
	}
	add("delay", shortSpan(s.Delay), s.Delay > 0)
	add("jitter", shortSpan(s.Jitter), s.Jitter > 0)
	add("loss", strconv.FormatFloat(float64(s.Loss)/100, 'f', -1, 64)+"%", s.Loss > 0)
	add("rate", rate(s.Rate), s.Rate > 0)
	add("up", shortSpan(s.Up), s.Up > 0)
	add("down", shortSpan(s.Down), s.Down > 0)
	return strings.Join(parts, ",")
}

// scaled writes a number with the largest unit that it is a whole number of.
func scaled(n, base int64, units ...string) string {
	unit := 0
	for unit < len(units)-1 && n%base == 0 && n > 0 {
		n, unit = n/base, unit+1
	}
	return strconv.FormatInt(n, 10) + units[unit]
}

func rate(n int64) string { return scaled(n, 1000, "bit", "kbit", "mbit", "gbit") }

func size(n int64) string { return scaled(n, 1<<10, "B", "KB", "MB", "GB") }

// shortSpan is a duration without its parts that are zero: 1h, not 1h0m0s.
func shortSpan(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Grammar returns one line or more for each form of a fault but the profiles.
func Grammar() string { return grammar }
