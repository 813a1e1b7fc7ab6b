package main_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A next step is a command that a text of the program names: one of its own verbs, or one for a hypervisor or this
// machine. Two commands are the same step where program, words and flags are; values, and the flags that say where, do
// not count.

const (
	hivePrograms = `hive-test (?:up|plan|apply|configure|test|down|full|status|wait|doctor|extend|hold|reap|logs|explain|ssh|exec|cp|env|inventory|unlock|attach|drift|ensure|fault [a-z]+|state (?:init|list|show|output|pull|push|unlock|migrate|history|diff|rollback|validate|fmt)|help)`
	hostPrograms = `qm [a-z][a-z-]*|pvesm (?:set|free|status|path|alloc|list)|pveum (?:[a-z]+ )*(?:add|modify|list|delete)|pvesh [a-z]+ /[a-z]+|` +
		`pvecm [a-z]+|ha-manager [a-z]+|systemctl [a-z]+|timedatectl [a-z-]+`
	herePrograms = `ssh-keygen|ssh-copy-id|ssh-add|ssh -F`

	unknown = "\x00" // what a text says there is known only when it runs
	openEnd = " ..." // of a step that may have more flags
)

var (
	nextStep   = regexp.MustCompile(`\b(` + hivePrograms + `|` + hostPrograms + `|` + herePrograms + `)(?:[/\s` + unknown + `][^` + "`" + `;,\n)]*)?`)
	hostStep   = regexp.MustCompile(`^(?:` + hostPrograms + `)`)
	stepFlag   = regexp.MustCompile(`\s--([a-z][a-z-]*)`)
	stepEnd    = regexp.MustCompile(`\s(?:or|without|where|goes on|with|\|\|)\s`)
	openText   = regexp.MustCompile(`(?:^|\S)` + unknown) // it goes on with what may hold flags
	placeFlags = []string{"clusters-dir", "config", "sim"}
)

// stepsIn are the steps that a text names.
func stepsIn(text string) (steps []string) {
	for _, found := range nextStep.FindAllStringSubmatchIndex(text, -1) {
		command, rest := text[found[2]:found[3]], text[found[3]:found[1]]
		if end := stepEnd.FindStringIndex(rest); end != nil {
			rest = rest[:end[0]]
		}
		var flags []string
		for _, flag := range stepFlag.FindAllStringSubmatch(rest, -1) {
			if !slices.Contains(placeFlags, flag[1]) {
				flags = append(flags, " --"+flag[1])
			}
		}
		slices.Sort(flags)
		step := command + strings.Join(flags, "")
		if openText.MatchString(rest) {
			step += openEnd
		}
		steps = append(steps, step)
	}
	return steps
}

// onHost is a command for a hypervisor, and which.
type onHost struct{ host, command string }

var (
	hostCommand = regexp.MustCompile("(?m)(^|: |; |, |then |'|`|[(])(" + `(?:` + hostPrograms + `)\b(?:'[^']*'|\|\||[^;,')(|` + "`" + `\n]|,\S)*)`)
	namedHost   = regexp.MustCompile(`\bon (pve\d+)\b`)
	hostAfter   = regexp.MustCompile(` on (?:pve\d+|the hypervisor).*$`)
)

// hostSteps are the commands for hypervisors that a text names. One without a hypervisor may be run on any.
func hostSteps(text string) (steps []onHost) {
	for line := range strings.Lines(text) {
		host := "pve1"
		if named := namedHost.FindStringSubmatch(line); named != nil {
			host = named[1]
		}
		for _, at := range hostCommand.FindAllStringSubmatchIndex(line, -1) {
			if before := namedHost.FindAllStringSubmatch(line[:at[0]], -1); before != nil {
				host = before[len(before)-1][1] // the last one before it
			}
			command := strings.TrimSpace(hostAfter.ReplaceAllString(line[at[4]:at[5]], ""))
			if line[at[2]:at[3]] == "'" { // it stands in quotes
				command, _, _ = strings.Cut(command, "'")
			}
			steps = append(steps, onHost{host: host, command: command})
		}
	}
	return steps
}

// covers reports whether a step that was run is the step, maybe with more flags.
func covers(ran, step string) bool {
	has, wanted := strings.Split(ran, " --"), strings.Split(step, " --")
	return has[0] == wanted[0] && !slices.ContainsFunc(wanted[1:], func(flag string) bool { return !slices.Contains(has[1:], flag) })
}

// printedSteps are all steps that the program's texts name, each with the places that do.
func printedSteps(t *testing.T) map[string][]string {
	t.Helper()
	printed := map[string][]string{}
	add := func(place, text string) {
		for _, step := range stepsIn(text) {
			printed[step] = append(printed[step], place)
		}
	}
	root := filepath.Join("..", "..", "pkg")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "sim":
			return fs.SkipDir
		case filepath.Base(path) == "signatures.json":
			return addSignatures(path, add)
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			return !addTexts(n, func(text string) { add(strings.TrimPrefix(path, root), text) })
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return printed
}

// addSignatures adds what the known failures advise, for VMs and for hosts.
func addSignatures(path string, add func(place, text string)) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var signatures []struct {
		ID, Next string
		Hosts    struct{ Next string }
	}
	if err := json.Unmarshal(raw, &signatures); err != nil {
		return err
	}
	for _, s := range signatures {
		add("signature "+s.ID, s.Next)
		add("signature "+s.ID+" of hosts", s.Hosts.Next)
	}
	return nil
}

// addTexts adds a node's text, and reports whether what is below the node is done with: a sum of texts is one, and the help of a
// command is no advice.
func addTexts(n ast.Node, add func(string)) (done bool) {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		key, _ := n.Key.(*ast.Ident)
		return key != nil && isHelp(key.Name)
	case *ast.AssignStmt:
		field, _ := n.Lhs[0].(*ast.SelectorExpr)
		return field != nil && isHelp(field.Sel.Name)
	case *ast.ValueSpec:
		return n.Names[0].Name == "long" // the help of all
	case *ast.BasicLit:
		add(textOf(n))
	case *ast.BinaryExpr:
		if n.Op == token.ADD {
			add(textOf(n))
			return true
		}
	}
	return false
}

func isHelp(field string) bool {
	return slices.Contains([]string{"Example", "Short", "Long", "Use"}, field)
}

// textOf is a text whose parts are put together, with a mark for what is known only when it runs.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return textOf(e.X) + textOf(e.Y)
		}
	case *ast.ParenExpr:
		return textOf(e.X)
	}
	return unknown
}

// scriptedSteps are the steps that scripts take from the output that names them, and run.
func scriptedSteps(t *testing.T) map[string]bool {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join("..", "..", "testdata", "script", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	advice := regexp.MustCompile(`(?m)^(?:\[[a-z]+\] )?advised (\w+) '(.*)'$`)
	run := map[string]bool{}
	for _, script := range scripts {
		raw, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range advice.FindAllSubmatchIndex(raw, -1) {
			name, pattern, after := string(raw[at[2]:at[3]]), string(raw[at[4]:at[5]]), raw[at[1]:]
			if !regexp.MustCompile(`(?m)^.*(?:sh -c \$` + name + `\b|follow ` + name + `\b)`).Match(after) {
				t.Errorf("%s: nobody runs what %q advises", filepath.Base(script), pattern)
			}
			for _, step := range stepsIn(ownOrHosts(pattern)) {
				run[step] = true
			}
		}
	}
	return run
}

// ownOrHosts is a command as it is printed: those of hive-test itself are written without its name in scripts.
func ownOrHosts(command string) string {
	if hostStep.MatchString(command) {
		return command
	}
	return "hive-test " + command
}

// isRun reports whether a step was run: as it stands, or with more flags where the text leaves them open.
func isRun(step string, run map[string]bool) bool {
	whole, open := strings.CutSuffix(step, openEnd)
	return run[whole] || open && slices.ContainsFunc(slices.Collect(maps.Keys(run)), func(ran string) bool { return covers(ran, whole) })
}

// notRun are the steps that no test runs, with the reason.
func notRun() map[string]string {
	return map[string]string{
		"hive-test reap":            "it is for VMs that carry a cluster's name and are another's; reap.txtar runs it",
		"pvecm updatecerts --force": "the simulator's certificates have names",
		"pvesh delete /pools":       "it is printed after ten minutes of waiting; TestAdminPrograms runs it",
		"qm enroll-efi-keys":        "the simulator keeps no EFI variables: the warning alone is played",
		"ssh-add":                   "it asks for a passphrase; agent.txtar answers it",
		"ssh-copy-id":               "it asks for a hypervisor's password, and the simulator has none",
		"ssh -F":                    "it is for a host that SSH does not reach; reach.txtar runs it with that file",
	}
}

// TestEveryNextStepIsRun: what is printed as a next step is run by a test, in the state that prints it.
func TestEveryNextStepIsRun(t *testing.T) {
	printed, run := printedSteps(t), scriptedSteps(t)
	for _, step := range slices.Concat(doctorSteps(), roleSteps()) {
		run[step] = true
	}
	reasons := notRun()
	for _, step := range slices.Sorted(maps.Keys(printed)) {
		switch _, excused := reasons[step]; {
		case isRun(step, run) && excused:
			t.Errorf("%q is run, and needs no reason", step)
		case !isRun(step, run) && !excused:
			t.Errorf("%q is run by no test; printed by %s", step, strings.Join(printed[step], ", "))
		}
	}
	for step, reason := range reasons {
		if printed[step] == nil {
			t.Errorf("%q, which is not run since %s, is printed nowhere", step, reason)
		}
	}
	t.Logf("%d steps, %d run", len(printed), len(printed)-len(reasons))
}
