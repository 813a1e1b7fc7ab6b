package cli

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/engine"
	"hive-test/pkg/gateway"
	"hive-test/pkg/hive"
	"hive-test/pkg/iac"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

var update = flag.Bool("update", false, "write docs/schema anew")

const schemaDir = "../../docs/schema"

// document is one that other programs read: its schema is docs/schema/NAME.json.
type document struct {
	name, title string
	of          any
	schema      int      // the number of its shape; 0: it belongs to another program's format
	commands    []string // that print it
	files       []string // that hold it
	tag         string   // of the fields' names; json if it is empty
}

// printed is a document that commands print.
func printed(name, title string, of any, commands ...string) document {
	return document{name: name, title: title, of: of, schema: outputSchema, commands: commands}
}

// allDocuments are all of them. The scripts' tests find by commands and files what a document is to hold.
func allDocuments() []document {
	const clusters, run = "clusters/NAME/", "clusters/.runs/NAME/RUN/"
	return []document{
		{
			name: "report", title: "what became of a run", of: report.Report{}, schema: report.Schema,
			commands: []string{
				"up NAME -o json", "apply NAME -o json", "configure NAME -o json", "test NAME -o json", "down NAME -o json",
				"full NAME -o json", "report NAME|RUN_DIR -o json", "report NAME|RUN_DIR --format json",
				"matrix run FILE -o json", "matrix merge DIR... -o json", "snapshot restore NAME -o json",
			},
			files: []string{run + report.JSONFile},
		},
		printed("plan", "what up would do", readingJSON{}, "up NAME --dry-run -o json", "plan NAME -o json"),
		printed("status", "a cluster as it is now", statusJSON{}, "status NAME -o json", "wait NAME -o json"),
		printed("status-list", "the clusters that are here", listJSON{}, "status -o json"),
		printed(
			"status-watch", "a cluster as it was at a time; a line for each change", watchJSON{},
			"status NAME --watch -o json",
		),
		printed("doctor", "checks of what up needs", doctorJSON{}, "doctor -o json"),
		printed("reap", "VMs that a reap has found, and what it did to them", reapJSON{}, "reap -o json"),
		printed("matrix-plan", "the cells of a matrix, and when each would run", matrixPlanJSON{}, "matrix plan FILE -o json"),
		printed("exec", "what a command has printed on each node", execJSON{}, "exec NAME -o json -- CMD"),
		printed(
			"faults", "faults of nodes: those that were applied, are there or were healed", faultsJSON{},
			"fault apply NAME FAULT -o json", "fault list NAME -o json", "fault heal NAME -o json",
		),
		printed("fault-profiles", "link faults with names", faultProfilesJSON{}, "fault profiles -o json"),
		printed("cp", "what was copied to or from each node", cpJSON{}, "cp NAME SRC DST -o json"),
		printed("logs", "what was gathered of a cluster, and where it is", logsJSON{}, "logs NAME -o json"),
		printed("explain", "why the latest run of a cluster that failed did", explainJSON{}, "explain NAME -o json"),
		printed("runs", "the runs that are kept", runsJSON{}, "runs -o json"),
		printed("runs-diff", "what differs between two runs", runsDiffJSON{}, "runs diff A B -o json"),
		printed(
			"runs-prune", "the runs that are kept, and which of them were removed", runsPruneJSON{},
			"runs prune -o json",
		),
		printed(
			"lifetime", "until when a cluster is to exist", remarkJSON{},
			"extend NAME DURATION -o json", "hold NAME -o json",
		),
		printed(
			"snapshots", "the snapshots of a cluster", snapshotsJSON{},
			"snapshot list NAME -o json", "snapshot save NAME -o json", "snapshot delete NAME TAG -o json",
		),
		printed(
			"templates", "templates that nodes can be cloned from", templatesJSON{},
			"template list -o json", "template show TEMPLATE -o json", "template distribute TEMPLATE -o json",
		),
		printed("template-prune", "templates that nobody needs, and whether they were deleted", templatePruneJSON{}, "template prune -o json"),
		printed(
			"template-plan", "what building a template, or making copies of one, would do", templatePlanJSON{},
			"template build LAYER --dry-run -o json", "template distribute TEMPLATE --dry-run -o json",
		),
		printed(
			"template-done", "what was done with a template", templateDoneJSON{},
			"template build LAYER -o json", "template verify TEMPLATE -o json", "template promote TEMPLATE -o json",
			"template rm VERSION -o json",
		),
		printed("gateway", "an EC2 endpoint that runs", gateway.Info{}, "gateway start -o json", "gateway status -o json"),
		{
			name: "gateway-log", title: "a request that a gateway has answered; a line for each",
			of: gateway.Entry{}, commands: []string{"gateway logs -o json"},
		},
		{
			name: "iac-probe", title: "what an EC2 endpoint does for Terraform's AWS provider", of: iac.Table{}, schema: outputSchema,
			commands: []string{"iac probe -o json"},
		},
		{
			name: "iac-diff", title: "what differs between two probes of an EC2 endpoint", of: iac.Difference{}, schema: outputSchema,
			commands: []string{"iac diff A B -o json"},
		},
		printed("state-list", "the resources of a cluster's state", stateListJSON{}, "state list NAME -o json"),
		printed("state-show", "a resource of it", stateShowJSON{}, "state show NAME ADDRESS -o json"),
		printed("state-output", "the outputs of it", stateOutputJSON{}, "state output NAME -o json"),
		printed("state-check", "the module in a cluster's directory", stateCheckJSON{},
			"state init NAME -o json", "state validate NAME -o json", "state fmt NAME -o json"),
		printed("state-done", "what became of a cluster's state", stateDoneJSON{},
			"state push NAME -o json", "state migrate NAME -o json", "state rollback NAME VERSION -o json"),
		printed("state-unlock", "whose lock was taken from a cluster's state", stateUnlockJSON{}, "state unlock NAME -o json"),
		printed("state-history", "the versions of a cluster's state", stateHistoryJSON{}, "state history NAME -o json"),
		printed("state-diff", "what differs between two of them", stateDiffJSON{}, "state diff NAME VERSION -o json"),
		printed("drift", "what of a cluster is not as it is recorded; with --watch a line for each change", driftJSON{}, "drift NAME -o json", "drift NAME --watch -o json", "drift --all --watch -o json"),
		printed("drifts", "what of all clusters is not as it is recorded", driftsJSON{}, "drift --all -o json"),
		printed("ensure", "whether a cluster was as it is wanted, and what was run to make it so", ensureJSON{}, "ensure NAME -o json", "ensure NAME --dry-run -o json"),
		printed("attach", "which cluster was attached", attachJSON{}, "attach NAME -o json"),
		printed(
			"secrets", "what became of an encrypted file", secretsJSON{},
			"secrets init -o json", "secrets set FILE#KEY -o json", "secrets edit FILE -o json", "secrets rotate FILE -o json",
		),
		printed("secrets-check", "secrets that lie open, and references that cannot be read", secretsCheckJSON{}, "secrets check -o json"),
		printed("unlock", "whose lock was removed", unlockJSON{}, "unlock NAME -o json"),
		printed("config", "the settings in force", configJSON{}, "config show -o json"),
		printed("version", "the program, and what it works with", versionJSON{}, "version -o json"),
		printed(
			"env", "variables for programs that use a cluster", envJSON{},
			"env NAME -o json", "env NAME --format json",
		),
		{
			name: "inventory", title: "the nodes of a cluster, and how they are reached",
			of: cluster.Inventory{}, schema: cluster.InventorySchema,
			commands: []string{"inventory NAME", "inventory NAME --format json"},
			files:    []string{clusters + "inventory.json"},
		},
		{
			name: "terraform", title: "the nodes of a cluster as values of Terraform variables", of: terraformJSON{},
			commands: []string{"inventory NAME --format terraform"},
		},
		{
			name: "hosts", title: "hosts that are there already: the file of up --hosts-file, in YAML",
			of: config.HostsFile{}, tag: "yaml", commands: []string{"inventory NAME --format hosts"},
		},
		{
			name: "event", title: "what happened in a run; a line for each event",
			of: progress.Line{}, schema: progress.EventSchema, files: []string{run + "events.jsonl"},
		},
		{
			name: "index", title: "what was gathered for a run, and what was not and why",
			of: lifecycle.Index{}, schema: 1, files: []string{run + lifecycle.IndexFile},
		},
		{
			name: "cluster", title: "all that is known of a cluster, for hive-test itself",
			of: cluster.Record{}, schema: cluster.RecordSchema, files: []string{clusters + "cluster.json"},
		},
	}
}

// enums are the values of types that have few.
func enums() map[reflect.Type][]any {
	return map[reflect.Type][]any{
		reflect.TypeFor[progress.Status](): listed(progress.Statuses()),
		reflect.TypeFor[progress.Kind](): {
			progress.RunStart, progress.RunEnd, progress.PhaseStart, progress.PhaseEnd, progress.StepStart,
			progress.StepEnd, progress.Wait, progress.Info, progress.Note, progress.Warning, progress.Output,
			progress.Debug, progress.NodeState, progress.Case,
		},
		reflect.TypeFor[cluster.PhaseStatus](): {cluster.PhaseRunning, cluster.PhaseDone, cluster.PhaseFailed},
		reflect.TypeFor[deploy.Status]():       {deploy.Pass, deploy.Fail, deploy.Warn, deploy.Skip},
		reflect.TypeFor[deploy.Action]():       {deploy.Create, deploy.Update, deploy.Replace, deploy.Delete},
		reflect.TypeFor[deploy.ReapAction](): {
			deploy.ReapDelete, deploy.ReapSkip, deploy.ReapKeep, deploy.ReapDeleted, deploy.ReapFailed,
		},
		reflect.TypeFor[engine.RunResult](): {
			engine.RunPassed, engine.RunFailed, engine.RunInterrupted, engine.RunRunning, engine.RunGathered,
			engine.RunUnknown,
		},
		reflect.TypeFor[engine.ChangeKind](): listed(engine.ChangeKinds()),
		reflect.TypeFor[engine.PruneAction](): {
			engine.PruneKeep, engine.PruneRemove, engine.PruneRemoved, engine.PruneFailed,
		},
		reflect.TypeFor[hive.ServiceState](): {hive.ServiceUp, hive.ServiceDead, hive.ServiceSilent, hive.ServiceOut},
	}
}

// In JSON, what the deployer keeps of a node and of a target are members of those.
type (
	plainNode    cluster.Node
	nodeDocument struct {
		plainNode
		placement.VM
	}
	plainTarget    cluster.Target
	targetDocument struct {
		plainTarget
		placement.Target
	}
)

// generate makes the schema of a document of its type.
func (d document) generate(comments map[string]string) ([]byte, error) {
	r := jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, FieldNameTag: d.tag, Namer: typeName,
		AllowAdditionalProperties: d.tag == "", // fields may be added to what is ours; unknown keys of a file are mistakes
		LookupComment: func(t reflect.Type, field string) string {
			return comments[strings.TrimSuffix(t.PkgPath()+"."+t.Name()+"."+field, ".")]
		},
	}
	r.Mapper = func(t reflect.Type) *jsonschema.Schema {
		switch values := enums()[t]; {
		case t == reflect.TypeFor[cluster.Node]():
			return inline(r, nodeDocument{})
		case t == reflect.TypeFor[cluster.Target]():
			return inline(r, targetDocument{})
		case t == reflect.TypeFor[cluster.Document]():
			return &jsonschema.Schema{Description: "the deployer's own"}
		case values != nil:
			return &jsonschema.Schema{Type: "string", Enum: values}
		case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && t != reflect.TypeFor[time.Time]():
			return &jsonschema.Schema{Type: "string"}
		}
		return nil
	}
	s := r.Reflect(d.of)
	s.Title, s.Description = d.title, ""
	if d.schema > 0 {
		number, _ := s.Properties.Get("schema")
		number.Const = d.schema
	}
	if _, flat := d.of.(envJSON); flat {
		s.AdditionalProperties = &jsonschema.Schema{Type: "string"}
	}
	s.Extras = map[string]any{}
	if len(d.commands) > 0 {
		s.Extras["x-commands"] = d.commands
	}
	if len(d.files) > 0 {
		s.Extras["x-files"] = d.files
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, raw, "", "  "); err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	return text.Bytes(), nil
}

// inline is the schema of a value without a definition of its own.
func inline(r jsonschema.Reflector, value any) *jsonschema.Schema {
	r.DoNotReference = true
	s := r.Reflect(value)
	s.Version = ""
	return s
}

// typeName names a definition: two packages may have types of one name.
func typeName(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	return path.Base(t.PkgPath()) + "." + strings.TrimSuffix(t.Name(), "JSON")
}

// typeComments are the comments of all types below pkg and of their fields, by package, type and field.
func typeComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	err := filepath.WalkDir("..", func(file string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		at := path.Join("hive-test/pkg/cli", filepath.ToSlash(filepath.Dir(file)))
		for _, decl := range parsed.Decls {
			if types, ok := decl.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				for _, spec := range types.Specs {
					addComments(comments, at, types, spec.(*ast.TypeSpec))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return comments
}

func addComments(comments map[string]string, at string, types *ast.GenDecl, spec *ast.TypeSpec) {
	comments[at+"."+spec.Name.Name] = oneParagraph(types.Doc.Text())
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range fields.Fields.List {
		text := field.Doc.Text()
		if text == "" {
			text = field.Comment.Text()
		}
		for _, name := range field.Names {
			comments[at+"."+spec.Name.Name+"."+name.Name] = oneParagraph(text)
		}
	}
}

func oneParagraph(text string) string { return strings.Join(strings.Fields(text), " ") }

// The schemas are what the types are. -update writes them.
func TestSchemasAreOfTheTypes(t *testing.T) {
	comments := typeComments(t)
	var names []string
	for _, d := range allDocuments() {
		names = append(names, d.name+".json")
		want, err := d.generate(comments)
		if err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
		file := filepath.Join(schemaDir, d.name+".json")
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the types are: `go test ./pkg/cli -run Schemas -update` (-want +got):\n%s", file, diff)
		}
	}
	entries, err := os.ReadDir(schemaDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !slices.Contains(names, entry.Name()) {
			t.Errorf("%s is the schema of nothing", entry.Name())
		}
	}
}

// Every verb prints a document, but for those that have none: what init prints is a config file.
func TestEveryVerbHasItsDocument(t *testing.T) {
	without := []string{"init", "ssh", "completion", "help", "exit-codes", "settings"}
	a := &app{}
	for _, cmd := range a.root().Commands() {
		documented := slices.ContainsFunc(allDocuments(), func(d document) bool {
			return slices.ContainsFunc(d.commands, func(c string) bool { return strings.HasPrefix(c+" ", cmd.Name()+" ") })
		})
		if documented == slices.Contains(without, cmd.Name()) {
			t.Errorf("%s: documented is %v", cmd.Name(), documented)
		}
	}
}

// What documents have in common has one name in all of them.
func TestDocumentsNameTheSameTheSame(t *testing.T) {
	for _, d := range allDocuments() {
		raw, err := os.ReadFile(filepath.Join(schemaDir, d.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Properties map[string]struct {
				Ref  string `json:"$ref"`
				Type string `json:"type"`
			} `json:"properties"`
			Required []string `json:"required"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		if d.schema > 0 && !slices.Contains(s.Required, "schema") {
			t.Errorf("%s: schema is not required", d.name)
		}
		for _, name := range []string{"cluster", "owner_id", "verb", "run_dir"} {
			if p, found := s.Properties[name]; found && p.Type != "string" {
				t.Errorf("%s: %s is %s%s", d.name, name, p.Type, p.Ref)
			}
		}
	}
}

// docs/documents.md names every document, the verbs that print it and the file that holds it.
func TestDocumentsAreListed(t *testing.T) {
	raw, err := os.ReadFile("../../docs/documents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range allDocuments() {
		line := ""
		for l := range strings.Lines(string(raw)) {
			if strings.Contains(l, "["+d.name+"](schema/"+d.name+".json)") {
				line = l
			}
		}
		if line == "" {
			t.Errorf("%s is not listed", d.name)
		}
		for _, command := range d.commands {
			if verb, _, _ := strings.Cut(command, " "); !strings.Contains(line, "`"+verb) {
				t.Errorf("%s: the verb %s is not listed", d.name, verb)
			}
		}
		for _, file := range d.files {
			if !strings.Contains(line, path.Base(file)+"`") {
				t.Errorf("%s: the file %s is not listed", d.name, file)
			}
		}
	}
}

// listed are values as a schema lists them.
func listed[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}
