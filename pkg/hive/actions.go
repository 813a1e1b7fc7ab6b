package hive

import (
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hive-test/cloudinit"
)

// Action is one thing that is done on a node: a file or directory of this machine is put there, or a script is run.
type Action struct {
	Name     string
	From, To string            // of a file: its path here, and there, where ~/ is the home of the nodes' user; empty: Script is run
	Script   string            // for bash, with all that stands before a node script
	Mode     os.FileMode       // of a file, there; 0: as here
	Env      map[string]string // of Script
}

// ErrBuiltHere means that hive was to be built on this machine for a node that is not reached from here.
var ErrBuiltHere = errors.New("hive is built on this machine (--build local) only for nodes that are reached from here")

// Actions returns what the steps StepCloudInit, StepOS and, with install, StepInstall do on one node that was just made, in order, for
// those who have another way to it than SSH from here. What they need of files that are made for it is below dir, which the caller
// removes.
func (o Options) Actions(dir string, install bool) ([]Action, error) {
	o = o.withDefaults()
	scripts, err := loadScripts(o.ScriptsDir)
	if err != nil {
		return nil, err
	}
	script := func(name string, env map[string]string) Action {
		all := map[string]string{"HIVE_PORT": strconv.Itoa(ManagerPort), "HIVE_LAYOUT": o.layout()}
		maps.Copy(all, env)
		return Action{Name: strings.TrimSuffix(name, ".sh"), Script: scripts[commonScript] + "\n" + scripts[name], Env: all}
	}
	list := []Action{
		// No vendor data of ours is needed there: what that would do is the next step's.
		script("wait-cloud-init.sh", o.cloudInitEnv("")), script("os-essentials.sh", o.osEnv()),
	}
	if !install {
		return list, nil
	}
	switch {
	case o.Binary != "":
		list = append(list, put(o.Binary, remoteUploaded, 0o755), script("install-binary.sh", o.binaryEnv()))
	case o.Tarball != "":
		list = append(list, put(o.Tarball, remoteTarball, 0o600), script("install-tarball.sh", o.tarballEnv("")))
	case o.Build == BuildLocal:
		return nil, ErrBuiltHere
	case o.SourceDir != "":
		source, env, err := packSource(o.SourceDir, dir)
		if err != nil {
			return nil, fmt.Errorf("packing hive's source: %w", err)
		}
		list = append(list, put(source, remoteSource, 0o600), script("install-source.sh", env))
	case o.Repo != "":
		list = append(list, script("install-git.sh", o.gitEnv()))
	default:
		list = append(list, script("install-binary.sh", o.binaryEnv()))
	}
	return list, nil
}

func put(from, to string, mode os.FileMode) Action {
	return Action{Name: "put " + filepath.Base(from), From: from, To: to, Mode: mode}
}

// packSource writes an archive of a whole source tree below dir.
func packSource(source, dir string) (path string, env map[string]string, err error) {
	tree, err := readTree(source)
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "source.tar.gz")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", nil, err
	}
	compressed := gzip.NewWriter(file)
	err = errors.Join(tree.pack(compressed, tree.changeOf(nil)), compressed.Close(), file.Close())
	return path, versionEnv(tree), err
}

// What node scripts are told. The scripts say what each means.

func versionEnv(t tree) map[string]string {
	version, commit := t.version()
	return map[string]string{"HIVE_VERSION": version, "HIVE_COMMIT": commit}
}

func (o Options) cloudInitEnv(marker string) map[string]string {
	return map[string]string{"HIVE_CLOUD_INIT_TIMEOUT": seconds(o.CloudInitTimeout), "HIVE_CLOUD_INIT_MARKER": marker}
}

func (o Options) osEnv() map[string]string {
	return map[string]string{
		"HIVE_OS_PACKAGES":      strings.Join(o.osPackages(), " "),
		"HIVE_OS_ESSENTIALS":    yes(o.OSEssentials),
		"HIVE_OS_TIMEZONE":      cloudinit.DefaultTimezone,
		"HIVE_OS_SOCKET_BUFFER": strconv.Itoa(cloudinit.DefaultSocketBufferBytes),
	}
}

func (o Options) binaryEnv() map[string]string {
	return map[string]string{"HIVE_UPLOADED": yes(o.Binary != ""), "HIVE_NAMED": o.Binary}
}

func (o Options) tarballEnv(sha256 string) map[string]string {
	return map[string]string{"HIVE_SHA256": sha256, "HIVE_NAMED": o.Tarball}
}

func (o Options) gitEnv() map[string]string {
	return map[string]string{"HIVE_REPO": o.Repo, "HIVE_REF": o.Ref}
}
