package cli

import (
	"cmp"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/hive"
	"hive-test/pkg/state"
)

// completion is what a value is completed to. It is asked at every press of a key: nothing is written, no node and no
// Proxmox VE is asked, and what cannot be read completes to nothing.
type completion struct {
	files, dirs bool // of this machine; where there are words, only where none of them fits
	// find returns words; they may have a description after a tab. Nil: there are none.
	find func(a *app, cmd *cobra.Command, args []string, typed string) []cobra.Completion
	open bool   // what was completed is not the whole value
	none string // why there is nothing to complete to
}

func words(list ...string) completion {
	return completion{find: func(*app, *cobra.Command, []string, string) []cobra.Completion { return list }}
}

func nothing(why string) completion { return completion{none: why} }

// argumentCompletions say of the arguments of each verb, in their order, what they are completed to; those that mean
// something else below one command are named with it. The last one of cp stands for all that follow.
func argumentCompletions() map[string][]completion {
	clusters := completion{find: (*app).completeClusters}
	return map[string][]completion{
		"up": {clusters}, "configure": {clusters}, "test": {clusters}, "down": {clusters}, "full": {clusters},
		"status": {clusters}, "drift": {clusters}, "ensure": {clusters}, "wait": {clusters}, "doctor": {clusters}, "hold": {clusters}, "reap": {clusters},
		"logs": {clusters}, "env": {clusters}, "inventory": {clusters}, "unlock": {clusters}, "attach": {nothing("the name of a cluster, which the backend of states knows")},
		"explain": {{find: (*app).completeRuns}}, "runs": {{find: (*app).completeRuns}},
		"report": {{find: (*app).completeRuns, dirs: true}},
		"diff": {
			{find: (*app).completeRunNames, dirs: true},
			{find: (*app).completeRunNames, dirs: true},
			{find: (*app).completeRuns},
		},
		"prune": {{find: (*app).completeRuns}},
		"plan":  {clusters}, "apply": {clusters},
		"run": {{files: true}}, "matrix plan": {{files: true}}, "merge": {{dirs: true}},
		"fault apply": {clusters, words(faultWords()...)},
		"heal":        {clusters, nothing("the id of a fault, which is on the nodes")}, "profiles": {},
		"extend": {clusters, nothing("a duration")},
		"save":   {clusters, nothing("a tag of your choice")},
		"list":   {clusters}, "restore": {clusters, {find: (*app).completeTags}},
		"delete":        {clusters, {find: (*app).completeTags}},
		"ssh":           {clusters, {find: (*app).completeShell}},
		"exec":          {clusters, nothing("a command, which is on the nodes")},
		"cp":            {clusters, {find: (*app).completePlaces, open: true, files: true}},
		"gateway start": {clusters}, "gateway stop": {clusters}, "gateway status": {clusters}, "gateway env": {clusters},
		"gateway logs": {clusters},
		"probe":        {nothing("the address of an endpoint")}, "iac diff": {{files: true}, {files: true}},
		"template build": {{find: (*app).completeLayers}}, "template list": {{find: (*app).completeLayers}},
		"template show": {{find: (*app).completeLayers}}, "template verify": {{find: (*app).completeLayers}},
		"distribute": {{find: (*app).completeLayers}}, "template prune": {},
		"promote": {nothing("the version of a template, which Proxmox VE knows")},
		"rm":      {nothing("the version of a template, which Proxmox VE knows")}, "export-packer": {{dirs: true}},
		"secrets init": {{files: true}}, "set": {{files: true, open: true}}, "edit": {{files: true}}, "rotate": {{files: true}},
		"check":      {{files: true}},
		"state init": {clusters}, "state list": {clusters}, "show": {clusters, nothing("the address of a resource, which the state has")},
		"output": {clusters, nothing("the name of an output, which the state has")}, "pull": {clusters}, "push": {clusters, {files: true}},
		"state unlock": {clusters, nothing("the id of the lock, which the backend knows")}, "migrate": {clusters},
		"history": {clusters}, "state diff": {clusters, nothing("the number of a version"), nothing("the number of a version")},
		"rollback": {clusters, nothing("the number of a version")}, "validate": {clusters}, "fmt": {clusters},
		"state serve": {}, "init": {}, "version": {}, "exit-codes": {}, "settings": {}, "config show": {},
	}
}

// flagCompletions say of all flags that take a word, by name, what it is completed to; those that mean something else to
// one command are named with it.
func flagCompletions() map[string]completion {
	stated := map[string]completion{
		"from":               words(hive.StepNames()...),
		"format":             {find: (*app).completeForms},
		"nodes":              {find: (*app).completeNodeList},
		"only-nodes":         {find: (*app).completeNodeList},
		"to":                 {dirs: true},
		"migrate to":         {files: true, find: func(*app, *cobra.Command, []string, string) []cobra.Completion { return []string{config.Local} }},
		"limit":              nothing("a number"),
		"at":                 words("never"),
		"interval":           nothing("a duration"),
		"jobs":               nothing("a number"),
		"for":                nothing("a duration"),
		"older-than":         nothing("a duration"),
		"prefix":             nothing("the beginning of names"),
		"datastore":          nothing("a storage of Proxmox VE, which is not asked here"),
		"snippet-store":      nothing("a storage of Proxmox VE, which is not asked here"),
		"from-env":           {files: true},
		"from-snapshot":      {find: (*app).completeTags},
		"owner":              nothing("the id of a cluster whose directory is lost"),
		"prune keep":         nothing("a number"),
		"max-parallel":       nothing("a number"),
		"repeat":             nothing("a number"),
		"shard":              nothing("a part, as 2/5"),
		"cell":               nothing("the name of a cell, which the file tells"),
		"image":              nothing("the name of an image"),
		"results-claim":      nothing("the name of a volume claim, which Kubernetes knows"),
		"listen":             nothing("an address and a port"),
		"region":             nothing("the name of a region"),
		"account":            nothing("the id of an account"),
		"lag":                nothing("a duration"),
		"patience":           nothing("a duration"),
		"answer":             {find: (*app).completeAnswers, open: true},
		"tls-cert":           {files: true},
		"tls-key":            {files: true},
		"tls-ca":             {files: true},
		"faults":             {files: true},
		"endpoint":           nothing("a URL"),
		"probe output":       words(sheetForms()...),
		"iac diff output":    words(sheetForms()...),
		"key":                {files: true},
		"add":                nothing("a public key of age"),
		"remove":             nothing("a public key of age"),
		"builder":            words(engine.Builders()...),
		"syntax":             words(engine.PackerSyntaxes()...),
		"layer":              {find: (*app).completeLayers},
		"out":                {files: true},
		"plan":               {files: true},
		"matrix plan output": words(slices.Concat([]string{"table", "json", "yaml"}, planForms())...),
	}
	for _, s := range config.Table() {
		stated[s.Flag] = settingCompletion(s)
	}
	return stated
}

// settingCompletion is what the value of a setting's flag is completed to.
func settingCompletion(s config.Setting) completion {
	switch {
	case s.Key == "environment":
		return completion{find: (*app).completeEnvironments}
	case s.Key == "i_know":
		return nothing("the name of what is protected, which is to be typed")
	case s.Key == "suite":
		return completion{find: (*app).completeSuites, open: true, files: true}
	case s.Key == "fault":
		return words(append(faultWords(), "none")...)
	case s.Key == "template":
		return completion{find: (*app).completeLayers}
	case s.Key == "suite_on":
		return completion{find: (*app).completeNodes}
	case s.Key == "suite_env":
		return completion{find: (*app).completeVariables}
	case s.Key == "provider":
		return completion{find: words("auto", "registry").find, dirs: true}
	case len(s.OneOf) > 0:
		return words(s.OneOf...)
	case s.Kind == config.File:
		return completion{files: true}
	case s.Kind == config.Dir:
		return completion{dirs: true}
	case s.Kind == config.Int:
		return nothing("a number")
	case s.Kind == config.Duration:
		return nothing("a duration")
	}
	return nothing("any " + cmp.Or(s.Value, string(s.Kind)))
}

// complete gives all commands their completions.
func (a *app) complete(root *cobra.Command) {
	a.completeBelow(root, argumentCompletions(), flagCompletions())
}

// completeBelow gives a command and those below it their completions.
func (a *app) completeBelow(cmd *cobra.Command, arguments map[string][]completion, flags map[string]completion) {
	for _, sub := range cmd.Commands() {
		a.completeBelow(sub, arguments, flags)
	}
	if stated, found := argumentsOf(cmd, arguments); found {
		cmd.ValidArgsFunction = a.argumentsFunc(stated)
	}
	register := func(f *pflag.Flag) {
		if stated, found := statedFor(cmd, f, flags); found {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, a.completionFunc(stated)) // fails where the flag is not there
		}
	}
	cmd.Flags().VisitAll(register)
	cmd.PersistentFlags().VisitAll(register)
}

// argumentsOf are what the arguments of a command are completed to.
func argumentsOf(cmd *cobra.Command, all map[string][]completion) ([]completion, bool) {
	if cmd.HasParent() {
		if own, found := all[cmd.Parent().Name()+" "+cmd.Name()]; found {
			return own, true
		}
	}
	stated, found := all[cmd.Name()]
	return stated, found
}

// statedFor is what the value of a command's flag is completed to.
func statedFor(cmd *cobra.Command, f *pflag.Flag, flags map[string]completion) (completion, bool) {
	if cmd.HasParent() {
		if own, found := flags[cmd.Parent().Name()+" "+cmd.Name()+" "+f.Name]; found {
			return own, true
		}
	}
	if own, found := flags[cmd.Name()+" "+f.Name]; found {
		return own, true
	}
	stated, found := flags[f.Name]
	return stated, found
}

func (a *app) argumentsFunc(arguments []completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := len(args)
		if cmd.Name() == "cp" {
			at = min(at, len(arguments)-1)
		}
		if at >= len(arguments) {
			if envFileMeant(cmd, args) {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completionFunc(arguments[at])(cmd, args, typed)
	}
}

func (a *app) completionFunc(c completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var fit []cobra.Completion
		if c.find != nil {
			for _, word := range c.find(a, cmd, args, typed) {
				if strings.HasPrefix(word, typed) {
					fit = append(fit, word)
				}
			}
		}
		switch {
		case len(fit) > 0 && c.open:
			return fit, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		case len(fit) > 0:
			return fit, cobra.ShellCompDirectiveNoFileComp
		case c.files:
			return nil, cobra.ShellCompDirectiveDefault
		case c.dirs:
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// bashWords stands before cobra's script for bash, which asks the package bash-completion which words are typed, and
// would print an error at every press of the key where that is not there.
const bashWords = `# Where the package bash-completion is not there, this finds the words that are typed.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref()
    {
        local typed=${COMP_LINE:0:COMP_POINT}
        read -ra words <<<"$typed"
        if [[ $typed == *[[:space:]] ]]; then
            words+=("")
        fi
        cword=$((${#words[@]} - 1))
        cur=${words[cword]} prev=${words[cword > 0 ? cword - 1 : 0]}
    }
fi

`

// withoutPackage makes the script for bash do without the package bash-completion.
func withoutPackage(completion *cobra.Command) {
	for _, cmd := range completion.Commands() {
		if cmd.Name() != "bash" {
			continue
		}
		script := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if _, err := io.WriteString(cmd.Root().OutOrStdout(), bashWords); err != nil {
				return err
			}
			return script(cmd, args)
		}
		about, rest, _ := strings.Cut(cmd.Long, "\n\nThis script depends on")
		_, rest, _ = strings.Cut(rest, "\n\n")
		cmd.Long = about + "\n\nIt uses the package bash-completion where that is there, and does without elsewhere.\n\n" +
			rest
	}
}

// storeFor is the clusters directory that a command line is about. Other settings may be wrong as yet.
func (a *app) storeFor(cmd *cobra.Command) (*state.Store, bool) {
	settings, _ := config.Load(config.LoadOptions{Flags: cmd.Flags(), Env: a.Getenv, WorkDir: a.WorkDir})
	store, err := state.Open(settings.ClustersDir)
	return store, err == nil && settings.ClustersDir != ""
}

// completeForms are the forms that a verb prints.
func (a *app) completeForms(cmd *cobra.Command, _ []string, _ string) []cobra.Completion {
	switch cmd.Name() {
	case "env":
		return envForms()
	case "report":
		return reportFormats()
	}
	return inventoryForms()
}

// completeLayers are the layers that templates can be built of.
func (a *app) completeLayers(cmd *cobra.Command, _ []string, _ string) []cobra.Completion {
	settings, _ := config.Load(config.LoadOptions{Flags: cmd.Flags(), Env: a.Getenv, WorkDir: a.WorkDir})
	return engine.LayerNames(settings)
}

// completeEnvironments are the environments of the config file.
func (a *app) completeEnvironments(cmd *cobra.Command, _ []string, _ string) []cobra.Completion {
	settings, _ := config.Load(config.LoadOptions{Flags: cmd.Flags(), Env: a.Getenv, WorkDir: a.WorkDir})
	return config.EnvironmentNames(settings.Environments)
}

func (a *app) completeClusters(cmd *cobra.Command, _ []string, _ string) []cobra.Completion {
	store, ok := a.storeFor(cmd)
	if !ok {
		return nil
	}
	list, _ := store.List()
	return names(list)
}

// completeRuns are the clusters that have left runs, those that are gone included.
func (a *app) completeRuns(cmd *cobra.Command, _ []string, _ string) []cobra.Completion {
	store, ok := a.storeFor(cmd)
	if !ok {
		return nil
	}
	list, _ := store.Remembered()
	return names(list)
}

// completeRunNames are the names of the runs that are kept, the newest first.
func (a *app) completeRunNames(cmd *cobra.Command, _ []string, typed string) []cobra.Completion {
	store, ok := a.storeFor(cmd)
	if !ok || strings.ContainsRune(typed, os.PathSeparator) {
		return nil
	}
	found := []cobra.Completion{engine.LatestRun, engine.PreviousRun}
	list, _ := store.Remembered()
	for _, name := range list {
		kept, _ := store.Kept(name.String())
		for _, run := range kept {
			if _, _, named := state.ParseRunName(filepath.Base(run.Dir)); named {
				found = append(found, cobra.CompletionWithDesc(filepath.Base(run.Dir), name.String()))
			}
		}
	}
	return found
}

func names(list []cluster.Name) []cobra.Completion {
	var found []cobra.Completion
	for _, name := range list {
		found = append(found, name.String())
	}
	return found
}

// recordOf is the record of the cluster that a command line names first; an empty one if there is none.
func (a *app) recordOf(cmd *cobra.Command, args []string) *cluster.Record {
	none := new(cluster.Record)
	store, ok := a.storeFor(cmd)
	if !ok || len(args) == 0 {
		return none
	}
	name, err := cluster.ParseName(args[0])
	if err != nil {
		return none
	}
	record, err := store.Load(name)
	if err != nil {
		return none
	}
	return record
}

// nodesOf are the nodes of the cluster that a command line names first.
func (a *app) nodesOf(cmd *cobra.Command, args []string) cluster.Nodes {
	return a.recordOf(cmd, args).Nodes
}

// envFileMeant reports whether the file of init's --from-env FILE comes next.
func envFileMeant(cmd *cobra.Command, args []string) bool {
	return cmd.Flags().Changed("from-env") && fromEnvArgument(cmd, append(slices.Clip(args), "FILE")) == nil
}

// completeShell are the nodes that ssh takes. After -- there is a command; cobra adds a -- of its own to what it parses,
// so that the words themselves are looked at.
func (a *app) completeShell(cmd *cobra.Command, args []string, typed string) []cobra.Completion {
	if slices.Contains(a.args[:max(0, len(a.args)-1)], "--") {
		return nil
	}
	return a.completeNodes(cmd, args, typed)
}

// completeNodes are numbers, each with the name of its node, and names.
func (a *app) completeNodes(cmd *cobra.Command, args []string, _ string) []cobra.Completion {
	var numbers, names []cobra.Completion
	for _, node := range a.nodesOf(cmd, args) {
		numbers = append(numbers, cobra.CompletionWithDesc(strconv.Itoa(node.Index), node.Name))
		names = append(names, node.Name)
	}
	return append(numbers, names...)
}

// completeTags are the tags of the cluster's snapshots, as far as its record has them.
func (a *app) completeTags(cmd *cobra.Command, args []string, _ string) []cobra.Completion {
	return slices.Sorted(maps.Keys(a.recordOf(cmd, args).Snapshots))
}

// completeNodeList goes on with a list like 1,3: with what it does not hold yet.
func (a *app) completeNodeList(cmd *cobra.Command, args []string, typed string) []cobra.Completion {
	listed, nodes := "", a.nodesOf(cmd, args)
	if at := strings.LastIndex(typed, ","); at >= 0 {
		listed = typed[:at+1]
	}
	for part := range strings.SplitSeq(listed, ",") {
		if chosen, found := nodes.Named(part); found {
			nodes = slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool { return n == chosen })
		}
	}
	var numbers, names []cobra.Completion
	for _, node := range nodes {
		numbers = append(numbers, cobra.CompletionWithDesc(listed+strconv.Itoa(node.Index), node.Name))
		names = append(names, listed+node.Name)
	}
	return append(numbers, names...)
}

// completePlaces are what cp can read or write: nodes, and the files of this directory. Those of another are for the
// shell, and those of a node are not asked for.
func (a *app) completePlaces(cmd *cobra.Command, args []string, typed string) []cobra.Completion {
	if strings.ContainsAny(typed, "/:~") {
		return nil
	}
	places := []cobra.Completion{cobra.CompletionWithDesc(":", "all nodes")}
	for _, node := range a.nodesOf(cmd, args) {
		places = append(
			places, cobra.CompletionWithDesc(strconv.Itoa(node.Index)+":", node.Name), node.Name+":",
		)
	}
	return append(places, a.filesHere(typed)...)
}

// completeSuites are those that are built in, those of the file, and files: most suites are scripts.
func (a *app) completeSuites(cmd *cobra.Command, _ []string, typed string) []cobra.Completion {
	if strings.ContainsAny(typed, "/~") {
		return nil
	}
	found := config.BuiltinSuites()
	settings, _ := config.Load(config.LoadOptions{Flags: cmd.Flags(), Env: a.Getenv, WorkDir: a.WorkDir})
	for _, s := range settings.NamedSuites {
		found = append(found, s.Name)
	}
	return append(found, a.filesHere(typed)...)
}

// filesHere are the files of the working directory. Hidden ones are for who begins so.
func (a *app) filesHere(typed string) []cobra.Completion {
	var files []cobra.Completion
	entries, _ := os.ReadDir(cmp.Or(a.WorkDir, "."))
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, ".") && !strings.HasPrefix(typed, "."):
		case entry.IsDir():
			files = append(files, name+"/")
		default:
			files = append(files, name)
		}
	}
	return files
}

// completeAnswers are the actions of EC2 with who may answer them.
func (a *app) completeAnswers(_ *cobra.Command, _ []string, typed string) []cobra.Completion {
	action, _, named := strings.Cut(typed, "=")
	var found []cobra.Completion
	if named {
		return []cobra.Completion{action + "=" + ec2.InCluster, action + "=" + ec2.Here}
	}
	for _, action := range wire.Actions() {
		found = append(found, action+"=")
	}
	return found
}

// completeVariables are the names of this environment's variables.
func (a *app) completeVariables(*cobra.Command, []string, string) []cobra.Completion {
	var found []cobra.Completion
	for _, variable := range a.Environ {
		name, _, _ := strings.Cut(variable, "=")
		found = append(found, name)
	}
	slices.Sort(found)
	return found
}
