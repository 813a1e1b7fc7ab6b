package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
)

// tree are the commands of the program, but for those that cobra hides.
func tree(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			all = append(all, tree(sub)...)
		}
	}
	return all
}

// wordsOf are the words that call a command.
func wordsOf(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// clustersHere makes a clusters directory with one cluster of three nodes, and the run of one that is gone.
func clustersHere(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	record := cluster.Record{
		Schema: cluster.RecordSchema, Name: "ci-1", Nodes: nodes(),
		Owner:     cluster.Owner{ID: "01a222b0-8c0e-7b43-9a22-1510d7e015ea"},
		Spec:      cluster.Spec{Deployer: "proxmox", NodeCount: 3, SSHUser: "tf-user"},
		Snapshots: map[string]cluster.SnapshotRecord{"clean": {}},
	}
	raw, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		"clusters/ci-1/cluster.json": string(raw), "clusters/.runs/gone/20260101T000000.000Z-up/events.jsonl": "",
		"file.txt": "", ".hidden": "", "dir/inner": "", ".config/hive-test/config.yaml": "environments: {prod: {}}\n",
	} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return dir
}

// completed asks the program, as a shell does, what the last of the words can be, and returns the answers without their
// descriptions, and cobra's number of what else the shell is to do.
func completed(t *testing.T, dir string, environ []string, words ...string) (answers []string, directive string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := Environment{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, WorkDir: dir, Environ: environ,
		Getenv: func(name string) string {
			for _, variable := range environ {
				if value, found := strings.CutPrefix(variable, name+"="); found {
					return value
				}
			}
			return ""
		},
	}
	if code := Main(append([]string{cobra.ShellCompRequestCmd}, words...), env); code != 0 {
		t.Fatalf("%q: exit code %d: %s", words, code, errs.String())
	}
	for line := range strings.Lines(out.String()) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), "\t")
		answers = append(answers, line)
	}
	if len(answers) == 0 {
		t.Fatalf("%q: no answer", words)
	}
	last := len(answers) - 1
	return slices.Clip(answers[:last]), answers[last]
}

// Cobra's numbers of what a shell is to do with the answers.
const (
	orFiles = ":0"
	only    = ":4"
	noSpace = ":6"
	orDirs  = ":16"
)

// Of every flag it is stated what its value is completed to, and the program completes it so.
func TestEveryFlagIsCompleted(t *testing.T) {
	dir := clustersHere(t)
	environ := []string{"PATH=/bin", "HOME=" + dir, "HIVE_TEST_CLUSTERS_DIR=" + filepath.Join(dir, "clusters")}
	asked, flags, tried := 0, flagCompletions(), map[string]bool{}
	for _, cmd := range tree((&app{}).root()) {
		check := func(f *pflag.Flag) {
			stated, found := statedFor(cmd, f, flags)
			states := stated.files || stated.dirs || stated.find != nil
			switch {
			case f.Value.Type() == "bool":
				return // it takes no word
			case !found || states == (stated.none != ""):
				t.Errorf("%s --%s: no completion is stated, or one that says no reason for nothing: add it to "+
					"flagCompletions or settingCompletion", cmd.CommandPath(), f.Name)
				return
			}
			asked++
			_, ofVerb := flags[cmd.Name()+" "+f.Name]
			_, ofPart := flags[strings.Join(wordsOf(cmd), " ")+" "+f.Name]
			if tried[f.Name] && !ofVerb && !ofPart {
				return // one of a name is completed as all are, and each is completed by a program of its own
			}
			tried[f.Name] = true
			words := append(wordsOf(cmd), "ci-1")
			if f.NoOptDefVal != "" { // the next word is none of its own
				words = append(words, "--"+f.Name+"=")
			} else {
				words = append(words, "--"+f.Name, "")
			}
			checkCompletion(t, dir, environ, stated, words...)
		}
		cmd.InitDefaultHelpFlag()
		cmd.NonInheritedFlags().VisitAll(check)
		cmd.PersistentFlags().VisitAll(check)
	}
	if asked < 150 {
		t.Errorf("only %d flags were asked for", asked)
	}
}

// checkCompletion checks that the last of the words, which is empty, is completed as it is stated.
func checkCompletion(t *testing.T, dir string, environ []string, stated completion, words ...string) {
	t.Helper()
	answers, directive := completed(t, dir, environ, words...)
	want := only
	switch {
	case len(answers) > 0 && stated.open:
		want = noSpace
	case len(answers) > 0:
	case stated.files:
		want = orFiles
	case stated.dirs:
		want = orDirs
	}
	if directive != want || (len(answers) > 0) != (stated.find != nil) {
		t.Errorf("%q completes to %q with %s, want %s", words, answers, directive, want)
	}
}

// Of every verb it is stated what its arguments are completed to, and the program completes them so.
func TestEveryArgumentIsCompleted(t *testing.T) {
	dir := clustersHere(t)
	for _, cmd := range tree((&app{}).root()) {
		if cmd.HasSubCommands() || cmd.Name() == "help" || strings.HasPrefix(cmd.CommandPath(), "hive-test completion ") {
			continue // commands, which cobra completes
		}
		arguments, stated := argumentsOf(cmd, argumentCompletions())
		if !stated {
			t.Errorf("%s: no completion of its arguments is stated: add it to argumentCompletions", cmd.CommandPath())
		}
		takes := strings.Fields(strings.ReplaceAll(cmd.Use, "[-- CMD]", ""))[1:]
		if cmd.Name() == "cp" {
			takes = takes[:2]
		}
		takes = slices.DeleteFunc(takes, func(word string) bool { return word == "--" })
		if len(arguments) != len(takes) {
			t.Errorf("%s takes %q, and %d completions are stated", cmd.CommandPath(), takes, len(arguments))
		}
		for i, c := range arguments {
			if (c.files || c.dirs || c.find != nil) == (c.none != "") {
				t.Errorf("%s: argument %d says neither words nor why there are none", cmd.CommandPath(), i+1)
			}
			words := append(wordsOf(cmd), []string{"ci-1", "1"}[:i]...)
			checkCompletion(t, dir, nil, c, append(words, "")...)
		}
	}
}

func TestCompletions(t *testing.T) {
	dir := clustersHere(t)
	before := list(t, dir)
	for _, tc := range []struct {
		line      string // its last word may be empty
		want      []string
		directive string
	}{
		{"up ", []string{"ci-1"}, only},
		{"up c", []string{"ci-1"}, only},
		{"up x", nil, only},
		{"up ci-1 ", nil, only},
		{"status ", []string{"ci-1"}, only},
		{"reap ", []string{"ci-1"}, only},
		{"explain ", []string{"gone"}, only},
		{"runs ", []string{"diff", "prune", "gone"}, only},
		{"runs g", []string{"gone"}, only},
		{"runs gone ", nil, only},
		{"runs diff ", []string{"latest", "previous", "20260101T000000.000Z-up"}, only},
		{"runs diff ./", nil, orDirs},
		{"runs diff latest 2026", []string{"20260101T000000.000Z-up"}, only},
		{"runs diff latest previous ", []string{"gone"}, only},
		{"runs prune ", []string{"gone"}, only},
		{"runs prune --keep ", nil, only},
		{"ssh ci-1 ", []string{"1", "2", "3", "ci-1-1", "ci-1-2", "ci-1-3"}, only},
		{"ssh ci-1 ci-1-2", []string{"ci-1-2"}, only},
		{"ssh ci-1 2 ", nil, only},
		{"ssh ci-1 -- ", nil, only},
		{"ssh ci-1 -- 1", nil, only},
		{"init ", nil, only},
		{"init --from-env ", nil, orFiles},
		{"init --from-env fi", nil, orFiles},
		{"init --from-env=", nil, orFiles},
		{"init --from-env=.env ", nil, orFiles},
		{"init --from-env=file.txt ", nil, only},
		{"init --from-env file.txt ", nil, only},
		{"ssh other ", nil, only},
		{"ssh .. ", nil, only},
		{"exec ci-1 ", nil, only},
		{"exec ci-1 -- ls ", nil, only},
		{"exec ci-1 --nodes ", []string{"1", "2", "3", "ci-1-1", "ci-1-2", "ci-1-3"}, only},
		{"exec ci-1 --nodes 1,", []string{"1,2", "1,3", "1,ci-1-2", "1,ci-1-3"}, only},
		{"exec ci-1 --nodes ci-1-1,3,", []string{"ci-1-1,3,2", "ci-1-1,3,ci-1-2"}, only},
		{"exec ci-1 --nodes=2", []string{"2"}, only},
		{"test ci-1 --on ", []string{"1", "2", "3", "ci-1-1", "ci-1-2", "ci-1-3"}, only},
		{"test ci-1 --suite ", []string{"smoke", "iac", "clusters/", "dir/", "file.txt"}, noSpace},
		{"test ci-1 --suite ./", nil, orFiles},
		{"test ci-1 --suite-env P", []string{"PATH"}, only},
		{"up ci-1 --provider ", []string{"auto", "registry"}, only},
		{"up ci-1 --provider /", nil, orDirs},
		{"configure ci-1 --from ini", []string{"init"}, only},
		{"extend ci-1 --at ", []string{"never"}, only},
		{"inventory ci-1 --format ", inventoryForms(), only},
		{"env ci-1 --format ", []string{"bash", "fish", "github", "dotenv", "json", "yaml"}, only},
		{"status -o ", []string{"table", "wide", "json", "yaml"}, only},
		{"iac diff -o ", []string{"table", "wide", "json", "yaml", "md", "html"}, only},
		{"iac probe -o ", []string{"table", "wide", "json", "yaml", "md", "html"}, only},
		{"cp ci-1 ", []string{
			":", "1:", "ci-1-1:", "2:", "ci-1-2:", "3:", "ci-1-3:", "clusters/", "dir/", "file.txt",
		}, noSpace},
		{"cp ci-1 f", []string{"file.txt"}, noSpace},
		{"cp ci-1 .h", []string{".hidden"}, noSpace},
		{"cp ci-1 file.txt 2", []string{"2:"}, noSpace},
		{"cp ci-1 dir/", nil, orFiles},
		{"version ", nil, only},
		{"help stat", []string{"state", "status"}, only},
		{"completion ", []string{"bash", "fish", "powershell", "zsh"}, only},
	} {
		args := strings.Split(tc.line, " ")
		got, directive := completed(t, dir, []string{"PATH=/bin"}, args...)
		if tc.line == "help stat" {
			got = slices.DeleteFunc(got, func(word string) bool { return !strings.HasPrefix(word, "stat") })
		}
		if diff := cmp.Diff(tc.want, got); (diff != "" && len(tc.want)+len(got) > 0) || directive != tc.directive {
			t.Errorf("%q: %q with %s, want %q with %s", tc.line, got, directive, tc.want, tc.directive)
		}
	}
	if diff := cmp.Diff(before, list(t, dir)); diff != "" {
		t.Errorf("completion has written (-before +after)\n%s", diff)
	}
}

// What is wrong, such as a file of settings in the making, completes to what is there without it, or to nothing.
func TestCompletionOfWhatIsDamaged(t *testing.T) {
	dir := clustersHere(t)
	if err := os.WriteFile(filepath.Join(dir, config.FileName), []byte("node_count: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := completed(t, dir, nil, "up", ""); !slices.Equal(got, []string{"ci-1"}) {
		t.Errorf("with a damaged file: %q", got)
	}
	record := filepath.Join(dir, "clusters", "ci-1", "cluster.json")
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"ssh", "ci-1", ""},
		{"exec", "ci-1", "--nodes", ""},
		{"up", "--clusters-dir", "file.txt", ""},
		{"up", "--config", "nowhere.yaml", "--clusters-dir", "nowhere", ""},
	} {
		if got, directive := completed(t, dir, nil, words...); len(got) > 0 || directive != only {
			t.Errorf("%q: %q with %s", words, got, directive)
		}
	}
}

// list are all files below a directory.
func list(t *testing.T, dir string) (files []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		files = append(files, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}
