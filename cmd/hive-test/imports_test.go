package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "hive-test"

// only says that a package (and everything below it) may be imported by these packages and by nobody else.
var only = []struct {
	what   string
	pkgs   []string
	reason string
}{
	{"github.com/spf13/cobra", []string{"pkg/cli", "pkg/sim/hive"}, "commands are declared in one place and stay thin; real hive's are cobra's, and are refused in its words"},
	{"github.com/spf13/viper", []string{"pkg/config"}, "settings are resolved once, into one typed value"},
	{"github.com/hashicorp/terraform-exec", []string{"pkg/opentofu"}, "each foreign API has exactly one adapter"},
	{"github.com/hashicorp/hc-install", []string{"pkg/opentofu", "pkg/template/packer"}, "each program that is fetched has exactly one adapter"},
	{"filippo.io/age", []string{"pkg/secret", "pkg/state", "pkg/stateserver"}, "secrets of users, clusters that are shared, and states at rest: three formats, each in one room"},
	{"github.com/opentofu/tofudl", []string{"pkg/opentofu"}, "each foreign API has exactly one adapter"},
	{"github.com/luthermonson/go-proxmox", []string{"pkg/deploy/proxmox/api"}, "its traps are wrapped once"},
	{"golang.org/x/crypto/ssh", []string{"pkg/gateway/ec2", "pkg/remote", "pkg/sim"}, "one SSH client, the servers that stand in for machines, and key pairs as EC2 writes them"},
	{"github.com/pkg/sftp", []string{"pkg/remote", "pkg/sim"}, "as for SSH"},
	{"al.essio.dev/pkg/shellescape", []string{"pkg/remote"}, "everything that reaches a shell is quoted in one package"},
	{"github.com/nats-io/nats-server", []string{"pkg/gateway/store"}, "each foreign API has exactly one adapter"},
	{"github.com/nats-io/nats.go", []string{"pkg/gateway/store"}, "each foreign API has exactly one adapter"},
	{"github.com/aws/aws-sdk-go-v2", []string{"pkg/awsauth", "pkg/sim/hive"}, "one way to sign; the simulated hive verifies by its own"},
	{"github.com/vishvananda/netlink", []string{"pkg/sim/host"}, "only simulated hosts have networks to make"},
	{"github.com/prometheus/client_golang", []string{"pkg/stateserver"}, "servers are watched, runs tell of themselves"},
	{"hive-test/pkg/stateserver", []string{"pkg/cli", "pkg/engine", "pkg/stateserver"}, "states are served by the one program, and nothing else knows how"},
	{"github.com/invopop/jsonschema", nil, "schemas are files that tests hold to the types"},
	{"github.com/santhosh-tekuri/jsonschema", nil, "tests hold documents to their schemas, the program does not"},
	{"github.com/spf13/cobra/doc", nil, "a test makes the man pages, and the program carries nothing for them"},
	{"github.com/rhysd/actionlint", nil, "tests read workflows and their expressions, the program does not"},
	{"hive-test/pkg/sim", []string{"cmd/hive-sim", "cmd/hive-sim-hive", "pkg/sim"}, "the product must not know that it talks to a simulator"},
	{"hive-test/pkg/cli", []string{"cmd/hive-test"}, "nothing below the command line knows of it"},
	{"hive-test/pkg/engine", []string{"pkg/cli"}, "the engine is called by programs, and calls none of them"},
	{"hive-test/pkg/target", []string{"pkg/engine"}, "the way to the machines is the engine's affair"},
	{"hive-test/pkg/deploy/existing", []string{"pkg/target"}, "one place chooses the deployer"},
	{"hive-test/pkg/deploy/simhosts", []string{"pkg/target"}, "one place chooses the deployer"},
	{"hive-test/pkg/lifecycle", []string{"pkg/cli", "pkg/engine"}, "workflows are called by the engine"},
	{"hive-test/pkg/config", []string{"pkg/cli", "pkg/engine", "pkg/target"}, "settings are turned into plain arguments at the top"},
	{"hive-test/pkg/state", []string{"pkg/engine", "pkg/target", "pkg/cli"}, "lifecycle sees an interface, never the disk"},
	{"hive-test/pkg/scratch", []string{"pkg/cli", "pkg/target"}, "where temporary files are is the process's affair"},
	{"hive-test/pkg/deploy/proxmox", []string{"pkg/target", "pkg/deploy/proxmox", "pkg/deploy/simhosts"}, "engine and lifecycle see an interface, never Proxmox VE"},
	{"hive-test/pkg/deploy/proxmox/api", []string{"pkg/target", "pkg/deploy/proxmox", "pkg/deploy/simhosts"}, "engine and lifecycle see an interface, never go-proxmox"},
	{"hive-test/pkg/opentofu", []string{"pkg/target", "pkg/deploy/proxmox/provision", "pkg/iac/run"}, "engine and lifecycle see an interface, never tofu"},
	{"hive-test/pkg/iac/run", []string{"pkg/engine"}, "suites bring nothing of OpenTofu along: the engine gives them what runs it"},
	{"hive-test/tofu", []string{"pkg/deploy/proxmox/provision"}, "what runs a module knows none"},
	{"hive-test/pkg/report", []string{"pkg/engine", "pkg/cli"}, "reports are made from events, at the top"},
	{"hive-test/pkg/explain", []string{"pkg/engine"}, "why a run failed is said when it is over, at the top"},
}

// within says which of this project's packages a package may import at most.
var within = []struct {
	pkg    string
	may    []string
	reason string
}{
	{"pkg/cluster", nil, "pure values, whatever makes the machines"},
	{"pkg/deploy/placement", []string{"pkg/cluster"}, "values that deployers of VMs keep"},
	{"pkg/wait", nil, "pauses and conditions, for everybody"},
	{"pkg/liveness", []string{"pkg/wait"}, "probes are given to it: it asks nobody itself"},
	{"pkg/process", nil, "what the kernel tells of processes, and nothing else"},
	{"pkg/scratch", []string{"pkg/process"}, "temporary files, and whose they are"},
	{"pkg/progress", []string{"pkg/cluster"}, "the event stream is below everything"},
	{"pkg/phase", []string{"pkg/cluster", "pkg/progress"}, "order, skip, cancel, timing; nothing of what runs"},
	{"pkg/matrix", []string{"pkg/progress"}, "values and orders of them: it runs nothing"},
	{"pkg/report", []string{"pkg/cluster", "pkg/progress", "pkg/remote"}, "bytes in, bytes out; what it tells to run is quoted as all that reaches a shell"},
	{"pkg/explain", []string{"pkg/progress", "pkg/remote"}, "events and files in, words out; what it tells to run is quoted as all that reaches a shell"},
	{"pkg/state", []string{"pkg/cluster", "pkg/deploy", "pkg/deploy/placement", "pkg/progress", "pkg/wait"}, "an adapter to the disk"},
	{"pkg/remote", []string{"pkg/cluster", "pkg/phase", "pkg/progress", "pkg/wait"}, "an adapter to SSH"},
	{"pkg/deploy/proxmox/api", []string{
		"pkg/cluster", "pkg/deploy", "pkg/progress", "pkg/wait",
	}, "an adapter to Proxmox VE"},
	{"pkg/opentofu", []string{
		"pkg/phase", "pkg/progress", "pkg/process", "pkg/wait",
	}, "an adapter to OpenTofu, whatever it makes"},
	{"pkg/deploy/proxmox/provision", []string{"cloudinit", "pkg/cluster", "pkg/deploy", "pkg/opentofu", "pkg/progress", "tofu"}, "VMs of Proxmox VE by OpenTofu, which asks it nothing itself"},
	{"pkg/hive", []string{
		"cloudinit", "pkg/awsauth", "pkg/cluster", "pkg/progress", "pkg/phase", "pkg/process", "pkg/remote", "pkg/wait",
		"pkg/liveness",
	}, "what is done to nodes, over SSH only"},
	{"pkg/fault", []string{"pkg/cluster", "pkg/hive", "pkg/progress", "pkg/remote"}, "what goes wrong on nodes on purpose, over SSH only"},
	{"pkg/gateway/wire", nil, "what goes over the wire, and nothing else"},
	{"pkg/awsauth", nil, "who signs a request, whatever that asks for"},
	{"pkg/gateway/store", []string{"pkg/gateway/wire"}, "an adapter to NATS"},
	{"pkg/gateway/ec2", []string{"pkg/gateway/store", "pkg/gateway/wire"}, "resources and their rules, whoever asks and however"},
	{"pkg/gateway", []string{"pkg/awsauth", "pkg/process", "pkg/wait"}, "an endpoint: it knows of no cluster"},
	{"pkg/iac", []string{
		"pkg/awsauth", "pkg/gateway/wire", "pkg/opentofu", "pkg/phase", "pkg/progress", "pkg/wait",
	}, "a client of any endpoint: it knows of no gateway and no cluster"},
	{"pkg/stateserver", nil, "HTTP in, objects of a storage out: it knows no cluster, and no storage of its own"},
	{"pkg/stateserver/client", []string{"pkg/stateserver"}, "HTTP out, to a server of states"},
	{"pkg/stateserver/filestore", []string{"pkg/stateserver"}, "an adapter to the disk"},
	{"pkg/stateserver/s3store", []string{"pkg/awsauth", "pkg/stateserver", "pkg/wait"}, "an adapter to S3"},
	{"pkg/stateserver/storagetest", []string{"pkg/stateserver"}, "what every storage must do, whichever it is"},
	{"pkg/iac/stacks", nil, "files, and nothing that runs them"},
	{"pkg/suite", []string{"pkg/awsauth", "pkg/cluster", "pkg/progress", "pkg/phase", "pkg/process", "pkg/remote"}, "what is run against nodes"},
	{"pkg/deploy/existing", []string{"pkg/cluster", "pkg/deploy"}, "hosts that are there: nothing to ask anybody"},
	{"pkg/lifecycle", []string{
		"pkg/cluster", "pkg/deploy", "pkg/progress", "pkg/phase", "pkg/fault", "pkg/hive", "pkg/suite", "pkg/remote",
		"pkg/wait", "pkg/liveness", "pkg/template",
	}, "workflows over interfaces"},
	{"pkg/template", []string{"pkg/cluster", "pkg/deploy", "pkg/hive"}, "what templates are made of, and say of themselves: it makes none"},
	{"pkg/template/packer", []string{"pkg/hive", "pkg/process", "pkg/remote", "pkg/template"}, "an adapter to Packer, whatever Proxmox VE it is given"},
	{"pkg/deploy/deploytest", []string{"pkg/cluster", "pkg/deploy", "pkg/progress"}, "what every deployer must do, whichever it is"},
	{"pkg/deploy/simhosts", []string{"cloudinit", "pkg/cluster", "pkg/deploy", "pkg/deploy/proxmox", "pkg/deploy/proxmox/api"}, "VMs of a simulator without OpenTofu"},
	{"pkg/deploy/proxmox", []string{
		"cloudinit", "pkg/cluster", "pkg/deploy", "pkg/opentofu", "pkg/process", "pkg/progress", "tofu", "pkg/wait",
	}, "what lifecycle asks of a cluster's VMs, answered by Proxmox VE"},
	{"pkg/target", []string{
		"pkg/cluster", "pkg/config", "pkg/deploy", "pkg/opentofu", "pkg/process", "pkg/progress", "pkg/remote", "pkg/scratch",
		"pkg/state", "pkg/wait",
	}, "the way to a cluster's machines: it alone names deployers"},
	{"pkg/engine", []string{
		"pkg/cluster", "pkg/config", "pkg/deploy", "pkg/explain", "pkg/fault", "pkg/hive", "pkg/lifecycle", "pkg/phase",
		"pkg/awsauth", "pkg/gateway", "pkg/iac", "pkg/matrix", "pkg/process",
		"pkg/progress", "pkg/remote", "pkg/report", "pkg/secret", "pkg/state", "pkg/stateserver", "pkg/suite", "pkg/target", "pkg/template", "pkg/template/packer", "pkg/wait",
	}, "a cluster's life, without a command line, a terminal or signals, on any deployer"},
	{"pkg/secret", []string{"pkg/process", "pkg/progress"}, "values that are elsewhere, whatever setting names them"},
	{"pkg/secret/sops", nil, "a format of files: it looks for no key and runs no program"},
	{"pkg/config", []string{"pkg/cluster", "pkg/deploy", "pkg/deploy/placement", "pkg/progress", "pkg/secret"}, "settings know only the values they fill, and how values are written"},
}

// calls that only the command line (and the programs) may make.
var calls = []struct {
	call   string
	pkgs   []string
	reason string
}{
	{"os.Exit", []string{"pkg/cli", "cmd"}, "one place decides how the process ends"},
	{"os.Stdout", []string{"pkg/cli", "cmd"}, "stdout carries data only"},
	{"os.Stderr", []string{"pkg/cli", "cmd"}, "narration goes through the event stream"},
	{"os.Getenv", []string{"pkg/cli", "cmd", "pkg/config"}, "settings are resolved once"},
	{"os.LookupEnv", []string{"pkg/cli", "cmd", "pkg/config"}, "settings are resolved once"},
	{"signal.Notify", []string{"pkg/cli", "cmd"}, "one place handles signals"},
	{"signal.NotifyContext", []string{"pkg/cli", "cmd"}, "one place handles signals"},
}

type source struct {
	pkg  string // directory, slash separated, relative to the repository
	path string
	file *ast.File
}

// ownRule is the package of the rule of within that is closest to a package.
func ownRule(pkg string) string {
	closest := ""
	for _, rule := range within {
		if below(pkg, rule.pkg) && len(rule.pkg) > len(closest) {
			closest = rule.pkg
		}
	}
	return closest
}

func TestDependencies(t *testing.T) {
	sources := load(t)
	t.Run("only", func(t *testing.T) {
		for _, rule := range only {
			used := false
			for _, s := range sources {
				for _, imported := range imports(s.file) {
					if !below(imported, rule.what) {
						continue
					}
					used = true
					if !anyBelow(s.pkg, rule.pkgs) && !strings.HasSuffix(s.path, "_test.go") {
						t.Errorf("%s imports %s, which only %v may: %s", s.path, imported, rule.pkgs, rule.reason)
					}
				}
			}
			if !used {
				t.Errorf("nothing imports %s any more: remove its row", rule.what)
			}
		}
	})
	t.Run("within", func(t *testing.T) {
		for _, rule := range within {
			seen := false
			for _, s := range sources {
				if !below(s.pkg, rule.pkg) || strings.HasSuffix(s.path, "_test.go") {
					continue
				}
				seen = true
				if ownRule(s.pkg) != rule.pkg { // it has one that says more
					continue
				}
				for _, imported := range imports(s.file) {
					own, ok := strings.CutPrefix(imported, module+"/")
					if ok && !below(own, rule.pkg) && !anyBelow(own, rule.may) {
						t.Errorf(
							"%s imports %s; %s may import only %v: %s", s.path, imported, rule.pkg, rule.may,
							rule.reason,
						)
					}
				}
			}
			if !seen {
				t.Errorf("%s is gone: remove its row", rule.pkg)
			}
		}
	})
	t.Run("calls", func(t *testing.T) {
		for _, s := range sources {
			if strings.HasSuffix(s.path, "_test.go") || below(s.pkg, "pkg/sim") {
				continue
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, ok := selector.X.(*ast.Ident)
				if !ok {
					return true
				}
				for _, rule := range calls {
					if pkg.Name+"."+selector.Sel.Name == rule.call && !anyBelow(s.pkg, rule.pkgs) {
						t.Errorf("%s uses %s, which only %v may: %s", s.path, rule.call, rule.pkgs, rule.reason)
					}
				}
				return true
			})
		}
	})
	t.Run("init", func(t *testing.T) {
		for _, s := range sources {
			for _, decl := range s.file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s has an init function: nothing happens behind the reader's back", s.path)
				}
			}
		}
	})
	t.Run("package state", func(t *testing.T) { packageState(t, sources) })
}

// packageState reports assignments to package-level variables: a package keeps no mutable state.
func packageState(t *testing.T, sources []source) {
	globals := map[string]bool{}
	for _, s := range sources {
		for _, decl := range s.file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					globals[s.pkg+"."+name.Name] = true
				}
			}
		}
	}
	for _, s := range sources {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, decl := range s.file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			own := declared(function)
			ast.Inspect(function.Body, func(n ast.Node) bool {
				assign, ok := n.(*ast.AssignStmt)
				if !ok || assign.Tok == token.DEFINE {
					return true
				}
				for _, left := range assign.Lhs {
					name, ok := left.(*ast.Ident)
					if ok && name.Name != "_" && globals[s.pkg+"."+name.Name] && !own[name.Name] {
						t.Errorf("%s assigns to the package-level variable %s", s.path, name.Name)
					}
				}
				return true
			})
		}
	}
}

// declared returns the names that a function declares itself, parameters and results included.
func declared(function *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(function, func(n ast.Node) bool {
		switch node := n.(type) {
		case *ast.Field:
			for _, name := range node.Names {
				names[name.Name] = true
			}
		case *ast.ValueSpec:
			for _, name := range node.Names {
				names[name.Name] = true
			}
		case *ast.RangeStmt:
			for _, expression := range []ast.Expr{node.Key, node.Value} {
				if name, ok := expression.(*ast.Ident); ok {
					names[name.Name] = true
				}
			}
		case *ast.AssignStmt:
			for _, left := range node.Lhs {
				if name, ok := left.(*ast.Ident); ok && node.Tok == token.DEFINE {
					names[name.Name] = true
				}
			}
		}
		return true
	})
	return names
}

func load(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var sources []source
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if entry.IsDir() {
			if relative == "tools" || strings.HasPrefix(entry.Name(), ".") && relative != root || relative == "bin" ||
				entry.Name() == "testdata" {
				if path == root {
					return nil
				}
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		sources = append(sources, source{pkg: filepath.ToSlash(filepath.Dir(relative)), path: relative, file: file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil || len(sources) < 20 {
		t.Fatalf("read %d files below %s: the repository is not there (%v)", len(sources), root, err)
	}
	return sources
}

func imports(file *ast.File) []string {
	var paths []string
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

func below(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

func anyBelow(path string, parents []string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool { return below(path, parent) })
}
