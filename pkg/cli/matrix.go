package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/matrix"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

const matrixLong = `matrix runs one cluster after another, or several at once, for each combination of settings that a file names.
Each cell is a full of its own: its cluster has the matrix's name and a hash of its values, and it keeps what any full keeps.

  name: nightly
  axes:
    node_count: [1, 3, 5]
    cpu_cores: [4, 8]
    suite: [smoke, [smoke, ./ddil.sh]]    # several of one cell are a list
  exclude: [{node_count: 5, cpu_cores: 8}]
  include: [{node_count: 7, cpu_cores: 4, suite: smoke}]
  settings: {memory_mb: 4096}      # of every cell
  budget: {memory_mb: 65536, cores: 48, vms: 16}
  max_parallel: 4
  fail_fast: false
  repeat: 1                        # how often each combination runs
  grid: [node_count, cpu_cores]    # the table of the report

Axes, include and exclude mean what they mean in a matrix of GitHub's. Any setting can be an axis; hive-test help settings
lists them.`

func (a *app) matrixCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "a cluster for each combination of settings, within a budget",
		Long:  matrixLong,
		Example: `  hive-test matrix plan nightly.yaml
  hive-test matrix run nightly.yaml --max-parallel=4
  hive-test matrix run nightly.yaml --resume`,
		Args: cobra.NoArgs,
		RunE: run(func(_ context.Context, cmd *cobra.Command, _ []string) error {
			return usage(progress.WithHint(errors.New("matrix needs a word: run, plan or merge"), usageLine(cmd)))
		}),
	}
	cmd.AddCommand(a.matrixRunCommand(), a.matrixPlanCommand(), a.matrixMergeCommand())
	return cmd
}

// matrixFlags are those of the matrix itself.
type matrixFlags struct {
	maxParallel, repeat int
	failFast            bool
	shard               string
	cells               []string
}

func addMatrixFlags(flags *pflag.FlagSet) *matrixFlags {
	f := &matrixFlags{}
	flags.IntVar(&f.maxParallel, "max-parallel", 0, "how many cells run at once; 0: as the file says")
	flags.IntVar(&f.repeat, "repeat", 0, "how often each combination runs; 0: as the file says")
	flags.BoolVar(&f.failFast, "fail-fast", false, "stop all when a cell fails")
	flags.StringVar(&f.shard, "shard", "", "run part N of M only, as 2/5: together the parts are all")
	flags.StringArrayVar(&f.cells, "cell", nil, "run the cell of that name only; may be repeated")
	return f
}

// args are the flags by which the matrix is run again, but for those that choose cells and say where results go.
func (f *matrixFlags) args(settings config.Settings) []string {
	args := slices.DeleteFunc(settings.Flags(), func(flag string) bool {
		return strings.HasPrefix(flag, "--evidence-dir=") || strings.HasPrefix(flag, "--junit=")
	})
	if settings.Explicit("suite") {
		for _, suite := range settings.Suites {
			args = append(args, "--suite="+suite)
		}
	}
	if f.repeat > 0 {
		args = append(args, "--repeat="+strconv.Itoa(f.repeat))
	}
	return args
}

// chosen are the flags that choose cells.
func (f *matrixFlags) chosen() []string {
	var args []string
	if f.shard != "" {
		args = append(args, "--shard="+f.shard)
	}
	for _, cell := range f.cells {
		args = append(args, "--cell="+cell)
	}
	return args
}

// apply lays the flags over what the file says.
func (f *matrixFlags) apply(request *engine.MatrixRequest) error {
	for _, number := range []struct {
		flag string
		n    int
	}{{"max-parallel", f.maxParallel}, {"repeat", f.repeat}} {
		if number.n < 0 {
			return usage(fmt.Errorf("--%s %d: it must not be negative", number.flag, number.n))
		}
	}
	request.Matrix.MaxParallel = cmp.Or(f.maxParallel, request.Matrix.MaxParallel)
	request.Matrix.Repeat = cmp.Or(f.repeat, request.Matrix.Repeat)
	request.Matrix.FailFast = f.failFast || request.Matrix.FailFast
	request.Cells = f.cells
	if f.shard == "" {
		return nil
	}
	if len(f.cells) > 0 {
		return usage(errors.New("--shard and --cell both choose cells: use one of them"))
	}
	part, of, _ := strings.Cut(f.shard, "/")
	n, err := strconv.Atoi(part)
	m, ofErr := strconv.Atoi(of)
	if err != nil || ofErr != nil || n < 1 || n > m {
		return usage(fmt.Errorf("--shard %s: it must be N/M, as 2/5, with N from 1 to M", f.shard))
	}
	request.Shard, request.Of = n, m
	return nil
}

// matrixRequest is what the command line and the file ask for.
func (a *app) matrixRequest(
	cmd *cobra.Command, file string, settings config.Settings, flags *matrixFlags,
) (engine.MatrixRequest, error) {
	m, content, err := a.readMatrix(file)
	if err != nil {
		return engine.MatrixRequest{}, err
	}
	request := engine.MatrixRequest{Settings: settings, Matrix: m, File: file, Content: content, Abort: a.signals.abort}
	if err := flags.apply(&request); err != nil {
		return request, err
	}
	if err := checkMatrixFlags(m, settings); err != nil {
		return request, err
	}
	request.Args, request.Chosen = flags.args(settings), flags.chosen()
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return request, err
	}
	request.Load = func(values, places map[string]string) (config.Settings, error) {
		cell, err := config.Load(config.LoadOptions{
			Values: values, Places: places, Flags: cmd.Flags(), Env: a.Getenv, WorkDir: a.WorkDir, ConfigPath: path,
			Resolver: settings.Resolver(), // each reference is read once for all cells
		})
		cell.Keep = cmp.Or(cell.Keep, string(lifecycle.KeepNever))
		return cell, err
	}
	return request, nil
}

// readMatrix reads the file of a matrix, or standard input for -.
func (a *app) readMatrix(file string) (m matrix.Matrix, content []byte, err error) {
	if file == "-" {
		file = "standard input"
		content, err = io.ReadAll(a.Stdin)
	} else {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		return m, nil, usage(fmt.Errorf("reading the matrix: %w", err))
	}
	if m, err = matrix.Parse(bytes.NewReader(content), file); err != nil {
		return m, nil, usage(err)
	}
	return m, content, nil
}

// checkMatrixFlags refuses flags of settings that the matrix sets itself: they would have no effect.
func checkMatrixFlags(m matrix.Matrix, settings config.Settings) error {
	var keys []string
	for _, axis := range m.Axes {
		keys = append(keys, axis.Name)
	}
	for _, c := range append(m.Include, m.Settings) {
		keys = slices.AppendSeq(keys, maps.Keys(c))
	}
	slices.Sort(keys)
	for _, key := range keys {
		if settings.Explicit(key) {
			return usage(fmt.Errorf("%s: the file of the matrix sets %s itself", settings.Source(key), key))
		}
	}
	return nil
}

func (a *app) matrixRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "run every cell, the longest first, as many at once as fit",
		Long: `run runs every cell of a matrix as hive-test full does. Which begins next is chosen so that the whole is short; what
is not to be exceeded is the file's budget, --max-parallel, and the memory that Proxmox VE has free by then.

INT begins no further cell and ends those that run as it ends a full; again, at once. A matrix that was killed or
interrupted goes on with --resume: cells that ended are not run again, and clusters that were left are taken over.
The exit code is that of the first cell that failed.

FILE is - for standard input. The report has a grid of the cells and says what those that failed have in common; JUnit has a suite
for each.`,
		Example: `  hive-test matrix run nightly.yaml --max-parallel=4
  hive-test matrix run nightly.yaml --shard=2/5 --junit=results.xml
  hive-test matrix run nightly.yaml --cell nightly-3f2a91 --keep=on-failure`,
		Args: oneFile,
	}
	load, flags := a.matrixSettings(cmd), addMatrixFlags(cmd.Flags())
	resume := cmd.Flags().Bool("resume", false, "go on with the last run, which did not come to its end")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		request, err := a.matrixRequest(cmd, args[0], settings, flags)
		if err != nil {
			return err
		}
		request.Resume = *resume
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) { return e.RunMatrix(ctx, request) }, nil)
	})
	return cmd
}

// matrixSettings gives a word of matrix the flags of full.
func (a *app) matrixSettings(cmd *cobra.Command) func() (config.Settings, error) {
	load := a.settings(cmd)
	config.VerbFlags(cmd.Flags(), "full")
	return load
}

// oneFile takes the file of a matrix.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(progress.WithHint(fmt.Errorf("%s needs the file of a matrix", cmd.CommandPath()), usageLine(cmd)))
	}
	return nil
}

// matrixPlanJSON is the shape of `matrix plan -o json`. Seconds are how long it is expected to take; Known says that the
// cell has run before, else they are a guess.
type matrixPlanJSON struct {
	Schema  int               `json:"schema"`
	Name    string            `json:"name"`
	Cells   []plannedCellJSON `json:"cells"`
	Seconds float64           `json:"seconds"`
	// Budget is what the cells that run have together at most; what it lacks has no bound. MaxParallel is 0 for no bound.
	Budget      matrix.Size `json:"budget"`
	MaxParallel int         `json:"max_parallel"`
}

type plannedCellJSON struct {
	Name     string         `json:"name"`
	Label    string         `json:"label"`
	Settings map[string]any `json:"settings"` // as the file has them
	Repeat   int            `json:"repeat,omitempty"`
	Size     matrix.Size    `json:"size"`
	Seconds  float64        `json:"seconds"`
	Known    bool           `json:"known"`
	Begins   float64        `json:"begins"`
}

func planOf(p engine.MatrixPlan) matrixPlanJSON {
	document := matrixPlanJSON{
		Schema: outputSchema, Name: p.Name, Seconds: p.Seconds, Budget: p.Limits.Budget, MaxParallel: p.Limits.MaxParallel,
		Cells: []plannedCellJSON{},
	}
	for _, c := range p.Cells {
		settings := map[string]any{}
		for key, value := range c.Cell.Settings {
			settings[key] = value.Raw()
		}
		document.Cells = append(document.Cells, plannedCellJSON{
			c.Name, c.Label, settings, c.Repeat, c.Size, c.Seconds, c.Known, c.Begins,
		})
	}
	return document
}

func (a *app) matrixPlanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "the cells of a matrix, in which order they would run, and for how long",
		Long: `plan lists the cells of a matrix with what each takes, when it would begin and how long it is expected to take: as
long as when it passed last, or else a guess. It changes nothing.

With -o github it prints the matrix of a job of GitHub's, with -o gitlab a child pipeline, with -o k8s a Job of Kubernetes, so that a fleet
runs the cells; matrix merge makes one report of what they leave.`,
		Example: `  hive-test matrix plan nightly.yaml
  hive-test matrix plan nightly.yaml -o gitlab >cells.yml
  hive-test matrix plan nightly.yaml -o k8s --results-claim=results >job.yml`,
		Args: oneFile,
	}
	load, flags := a.matrixSettings(cmd), addMatrixFlags(cmd.Flags())
	forms := slices.Concat([]string{"table", "json", "yaml"}, planForms())
	form := cmd.Flags().StringP("output", "o", "", "how it is printed: "+strings.Join(forms, ", "))
	image := cmd.Flags().String("image", "hive-test", "image of the containers of -o k8s, in which hive-test is on PATH")
	claim := cmd.Flags().String("results-claim", "", "PersistentVolumeClaim that keeps what the pods of -o k8s leave in /results; empty: an emptyDir, which goes with its pod")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if *form = cmp.Or(*form, settings.Output); !slices.Contains(forms, *form) {
			return usage(fmt.Errorf("-o %s: it is not one of %s", *form, strings.Join(forms, ", ")))
		}
		request, err := a.matrixRequest(cmd, args[0], settings, flags)
		if err != nil {
			return err
		}
		e, err := engine.Open(ctx, engine.Options{})
		if err != nil {
			return err
		}
		plan, err := e.PlanMatrix(request)
		if err != nil {
			return err
		}
		if slices.Contains(planForms(), *form) {
			return a.exported(*form, matrix.Export{Image: *image, Claim: *claim}, request, plan)
		}
		document := planOf(plan)
		if structured, err := printAs(a.Stdout, *form, document); structured {
			return err
		}
		return document.print(a.page(a.Stdout, settings), plan.Order)
	})
	return cmd
}

// planColumns are those of the plan of a matrix.
func planColumns() []column {
	return []column{
		{name: "BEGINS", right: true},
		{name: "CELL"},
		{name: "VALUES", least: 20},
		{name: "VMS", right: true, drop: 2},
		{name: "CORES", right: true, drop: 1},
		{name: "MEMORY", right: true, drop: 3},
		{name: "TIME", right: true},
	}
}

// print writes the plan for people, in the order in which cells are taken.
func (d matrixPlanJSON) print(p page, order []int) error {
	var rows [][]string
	guessed := 0
	order = slices.Clone(order)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.Cells[a].Begins, d.Cells[b].Begins) })
	for _, i := range order {
		c := d.Cells[i]
		took := progress.FormatSeconds(c.Seconds)
		if !c.Known {
			took, guessed = "~"+took, guessed+1
		}
		rows = append(rows, []string{
			"+" + progress.FormatSeconds(c.Begins), c.Name, c.Label, strconv.Itoa(c.Size.VMs), strconv.Itoa(c.Size.Cores),
			sizeWord(int64(c.Size.MemoryMB) << 20), took,
		})
	}
	if err := p.table(planColumns(), rows); err != nil {
		return err
	}
	line := progress.Count(len(d.Cells), "cell") + ", about " + progress.FormatSeconds(d.Seconds)
	if budget := d.Budget.String(); budget != "" {
		line += " within " + budget
	}
	if d.MaxParallel > 0 {
		line += fmt.Sprintf(", at most %d at once", d.MaxParallel)
	}
	if guessed > 0 {
		line += "; times with ~ are guesses, for these have not passed yet"
	}
	return p.line(line, "  ")
}

// planForms are what plan prints besides what -o prints of everything.
func planForms() []string { return []string{"github", "gitlab", "k8s"} }

// exported prints the plan for a fleet that runs the cells.
func (a *app) exported(
	form string, export matrix.Export, request engine.MatrixRequest, plan engine.MatrixPlan,
) error {
	file := request.File
	switch {
	case form == "k8s" && len(request.Chosen) > 0:
		return usage(fmt.Errorf("%s: a Job runs the cells of the whole file", request.Chosen[0]))
	case form == "k8s":
		file = "/matrix/matrix.yaml" // where the ConfigMap is mounted
	case form == "gitlab" && file == "-":
		return usage(errors.New("jobs read the matrix of a file: name it in place of -"))
	}
	for _, entry := range request.Settings.SuiteEnv {
		if strings.Contains(entry, "=") && request.Settings.Explicit("suite_env") {
			return usage(errors.New("--suite-env NAME=value is not printed: put it into settings: of the file, or give its name alone"))
		}
	}
	words := append([]string{"hive-test", "matrix", "run", file}, request.Args...)
	export.Name, export.Limits, export.Content, export.Command = plan.Name, plan.Limits, request.Content, remote.Quote(words...)
	for _, c := range plan.Cells {
		export.Cells, export.Sizes = append(export.Cells, c.Cell), append(export.Sizes, c.Size)
	}
	write := map[string]func() ([]byte, error){
		"github": export.GitHub, "gitlab": export.GitLab, "k8s": export.Kubernetes,
	}[form]
	raw, err := write()
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(raw)
	return err
}

func (a *app) matrixMergeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "merge DIR...",
		Short: "one report of what parts of a matrix have left",
		Long: `merge makes one run of the runs of parts of a matrix, as matrix run --shard and --cell leave them: its reports are
those of a run of the whole. DIR is such a run's directory, or one that holds some, as what --evidence-dir has copied. Where a cell is
in several of them, the run that began last counts; a cell that it does not tell the end of fails, and so does one that is in none.`,
		Example: `  hive-test matrix merge results-1 results-2 --junit=results.xml
  hive-test matrix merge results -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(progress.WithHint(fmt.Errorf("%s needs directories", cmd.CommandPath()), usageLine(cmd)))
			}
			return nil
		},
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		request := engine.MergeRequest{Settings: settings, Dirs: args}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) { return e.MergeMatrix(ctx, request) }, nil)
	})
	return cmd
}
