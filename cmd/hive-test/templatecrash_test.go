package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The crash matrix of templates: a build, or a distribution, is ended at many moments, and afterwards, once a machine that has
// only credentials has reaped, there is nothing but templates that are complete.
func TestTemplateCrash(t *testing.T) {
	soak(t)
	const moments = 15
	verbs := []string{"build", "distribute"}
	if _, err := exec.LookPath("packer"); err == nil {
		verbs = append(verbs, "packer")
	} else {
		t.Log("there is no Packer here: builds by it are not tried")
	}
	for _, verb := range verbs {
		for i, way := range crashWays()[:2] { // KILL and INT
			t.Run(verb+" "+way.name, func(t *testing.T) {
				t.Parallel()
				c := newTemplateCrasher(t, verb)
				random := rand.New(rand.NewPCG(crashSeed, uint64(i)))
				over := 0
				for n := range moments {
					over += c.crash(way, (float64(n)+random.Float64())/moments)
				}
				t.Logf("%d runs, %d of them over before they could be ended", moments, over)
			})
		}
	}
}

// templateCrasher has an arena in which one template is there, which must stay.
type templateCrasher struct {
	*testbed
	command func() *exec.Cmd
	kept    string // its version
	length  time.Duration
}

func newTemplateCrasher(t *testing.T, verb string) *templateCrasher {
	c := &templateCrasher{testbed: newArena(t)}
	build := func() *exec.Cmd { return c.here("template", "build", "base", "--sim", "--no-verify") }
	if built := c.run(build()); built.code != 0 {
		t.Fatalf("a whole build ends with %d:\n%s", built.code, built.stderr)
	}
	for _, one := range c.templates() {
		c.kept = one.Version
		c.others[one.VMID] = c.configOf(one.VMID)
	}
	c.still = c.look()
	c.command = build
	switch verb {
	case "packer":
		c.command = func() *exec.Cmd {
			return c.here("template", "build", "base", "--sim", "--no-verify", "--builder", "packer")
		}
	case "distribute":
		c.command = func() *exec.Cmd { return c.here("template", "distribute", c.kept, "--sim") }
	}
	start := time.Now()
	if whole := c.run(c.command()); whole.code != 0 {
		t.Fatalf("a whole %s ends with %d:\n%s", verb, whole.code, whole.stderr)
	}
	c.length = time.Since(start)
	c.drop("the whole run")
	return c
}

type builtTemplate struct {
	Version    string
	VMID       int
	Hypervisor string
}

// templates are those that are there, complete.
func (c *templateCrasher) templates() []builtTemplate {
	c.Helper()
	listed := c.run(c.here("template", "list", "--sim", "-o", "json"))
	var document struct{ Templates []builtTemplate }
	if err := json.Unmarshal([]byte(listed.stdout), &document); err != nil {
		c.Fatalf("template list: %v\n%s%s", err, listed.stdout, listed.stderr)
	}
	return document.Templates
}

// drop deletes all complete templates but the one that was there, and sees that nothing else is left.
func (c *templateCrasher) drop(what string) {
	c.Helper()
	for _, one := range c.templates() {
		if _, theirs := c.others[one.VMID]; !theirs {
			c.must("DELETE", fmt.Sprintf("/nodes/%s/qemu/%d?purge=1", one.Hypervisor, one.VMID))
		}
	}
	if leaks := c.leaks(); len(leaks) > 0 {
		c.Errorf("%s: left, beside what is complete: %s", what, strings.Join(leaks, "; "))
		c.still = c.look() // told once
	}
}

// crash ends one run, and has the other machine clean up; over counts a run that had ended before.
func (c *templateCrasher) crash(way crashWay, part float64) (over int) {
	c.Helper()
	point := crashPoint{part: part}
	what := fmt.Sprintf("%s at %s", way.name, point)
	run := c.start(c.command())
	if run.at(point, c.length) {
		over = 1
	} else {
		run.end(way)
	}
	code := run.wait()
	if over == 0 && way.name == "INT" && code != 130 && code != 0 && code != -1 { // -1: before it could hear of it
		c.Errorf("%s: exit code %d\n%s", what, code, run.log())
	}
	if cleaned := c.run(c.there("reap", "--yes")); cleaned.code != 0 {
		c.Errorf("%s: reap ends with %d\n%s", what, cleaned.code, cleaned.stderr)
	}
	c.drop(what)
	if c.Failed() {
		c.Fatalf("the run:\n%s", run.log())
	}
	return over
}
