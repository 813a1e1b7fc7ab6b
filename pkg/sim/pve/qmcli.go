package pve

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// The texts and exit statuses of pvesm and qm are those observed on Proxmox VE 8.4.

// admin runs one of Proxmox VE's programs, which root alone may.
func (sh *shell) admin(ctx context.Context, args []string, std stdio) int {
	if !sh.root {
		fmt.Fprintln(std.err, "please run as root")
		return 255
	}
	if status, known := sh.cli(ctx, args, std); known {
		return status
	}
	switch words := strings.Join(args, " "); {
	case args[0] == "qm":
		return sh.qm(ctx, args[1:], std)
	case words == "pvesm apiinfo":
		fmt.Fprint(std.out, "APIVER 11\nAPIAGE 2\n")
		return 0
	case len(args) == 3 && strings.HasPrefix(words, "pvesm path "):
		return sh.pvesmPath(args[2], std)
	case words == "pvecm status":
		return sh.pvecmStatus(std)
	case len(args) == 3 && strings.HasPrefix(words, "pvecm expected "):
		return sh.pvecmExpected(args[2], std)
	case words == "ha-manager status":
		return sh.haStatus(std)
	}
	fmt.Fprintf(std.err, "ERROR: unknown command '%s'\n", strings.Join(args, " "))
	return 255
}

// pvesmPath succeeds for files that do not exist, too.
func (sh *shell) pvesmPath(volid string, std stdio) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	id, name, ok := strings.Cut(volid, ":")
	if !ok || name == "" {
		fmt.Fprintf(std.err, "unable to parse volume ID '%s'\n", volid)
		return 255
	}
	st := sh.s.state.Storages[id]
	if st == nil {
		fmt.Fprintf(std.err, "storage '%s' does not exist\n", id)
		return 255
	}
	if _, _, err := st.parse(name); err != nil {
		fmt.Fprintln(std.err, err)
		return 255
	}
	fmt.Fprintln(std.out, sh.s.filePath(&volume{Storage: id, Name: name}))
	return 0
}

func (sh *shell) qm(ctx context.Context, args []string, std stdio) int {
	if len(args) > 0 && (args[0] == "--help" || args[0] == "help") {
		fmt.Fprintln(std.out, "USAGE: qm <COMMAND> [ARGS] [OPTIONS]")
		return 0
	}
	if len(args) >= 2 && args[0] == "disk" && args[1] == "import" {
		args = append([]string{"importdisk"}, args[2:]...)
	}
	commands := map[string]func(context.Context, int, []string, stdio) int{
		"importdisk": sh.qmImport, "set": sh.qmSet, "resize": sh.qmResize, "config": sh.qmConfig, "status": sh.qmStatus,
		"unlock": sh.qmUnlock, "terminal": sh.qmTerminal,
	}
	if len(args) < 2 || commands[args[0]] == nil {
		fmt.Fprintf(std.err, "ERROR: unknown command 'qm %s'\n", strings.Join(args, " "))
		return 255
	}
	vmid, err := strconv.Atoi(args[1])
	if err != nil || formatError("pve-vmid", args[1]) != "" {
		fmt.Fprintf(
			std.err, "400 Parameter verification failed.\nvmid: type check ('integer') failed - got '%s'\n", args[1],
		)
		return 255
	}
	return commands[args[0]](ctx, vmid, args[2:], std)
}

// fail prints an error. Its status is the errno that Perl died with: 2 for a missing file, else 255.
func fail(std stdio, err error) int {
	fmt.Fprintln(std.err, strings.TrimRight(err.Error(), "\n"))
	if strings.HasPrefix(err.Error(), "Configuration file") {
		return 2
	}
	return 255
}

// options splits "-key value" pairs from positional arguments.
func options(args []string) (positional []string, opts map[string]string, err error) {
	opts = map[string]string{}
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			positional = append(positional, args[i])
			continue
		}
		key, val, ok := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !ok {
			if i++; i >= len(args) {
				return nil, nil, fmt.Errorf("option %s requires an argument", key)
			}
			val = args[i]
		}
		opts[key] = val
	}
	return positional, opts, nil
}

// qmImport copies an image file into a new volume that becomes unusedN of a VM.
func (sh *shell) qmImport(ctx context.Context, vmid int, args []string, std stdio) int {
	pos, opts, err := options(args)
	if err != nil || len(pos) != 2 {
		fmt.Fprintln(std.err, "400 not enough arguments\nqm disk import <vmid> <source> <storage> [OPTIONS]")
		return 255
	}
	unlock, err := sh.s.lockVM(ctx, vmid, sh.s.opt.LockTimeout)
	if err != nil {
		return fail(std, err)
	}
	defer unlock()
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	out, err := sh.s.importDisk(sh.node, vmid, pos[0], pos[1], opts["format"])
	fmt.Fprint(std.out, out)
	if err != nil {
		if strings.HasSuffix(err.Error(), "non-regular file") {
			fmt.Fprintln(std.err, err)
			return 2
		}
		return fail(std, err)
	}
	return 0
}

func (s *Server) importDisk(node string, vmid int, source, storageID, format string) (string, error) {
	v, err := s.vmOn(node, vmid)
	if err != nil {
		return "", err
	}
	if err := v.checkLock(); err != nil {
		return "", err
	}
	var src *volume
	for _, o := range s.state.Volumes {
		if (o.Node == node || o.Node == "") && (s.filePath(o) == source || o.id() == source) {
			src = o
		}
	}
	if src == nil {
		return "", failf("%s: non-existent or non-regular file", source)
	}
	if err := s.checkImages(storageID); err != nil {
		if e, ok := errors.AsType[*apiError](err); ok && e.errs["storage"] != "" {
			return "", failf("%s", e.errs["storage"])
		}
		return "", err
	}
	out := fmt.Sprintf("importing disk '%s' to VM %d ...\n", source, vmid)
	vol, err := s.allocate(node, storageID, vmid, format, src.virtualSize())
	if err != nil {
		return out, err
	}
	vol.Blank = false
	out += s.formatting(vol) + "\n" + strings.Join(transferred(vol.Size), "\n") + "\n"
	key := addUnused(v.Config, vol.id())
	s.changed()
	return out + fmt.Sprintf("%s: successfully imported disk '%s'\n", key, vol.id()), nil
}

// qmSet changes options as PUT …/config does, as root.
func (sh *shell) qmSet(ctx context.Context, vmid int, args []string, std stdio) int {
	_, opts, err := options(args)
	if err != nil {
		fmt.Fprintf(std.err, "%v\n400 unable to parse option\nqm set <vmid> [OPTIONS]\n", err)
		return 255
	}
	c := &call{ctx: ctx, who: identity{user: "root@pam"}, node: sh.node, vmid: vmid, params: map[string]value{
		"node": {text: sh.node}, "vmid": {text: strconv.Itoa(vmid)},
	}}
	for k, v := range opts {
		if sh.s.option(k) == nil && k != "delete" && k != "digest" {
			fmt.Fprintf(std.err, "Unknown option: %s\n400 unable to parse option\nqm set <vmid> [OPTIONS]\n", k)
			return 255
		}
		c.params[k] = value{text: v, list: []string{v}}
	}
	props := sh.s.table["/nodes/{node}/qemu/{vmid}/config"]["PUT"].props
	if errs := validateParams(props, c.params); len(errs) > 0 {
		return paramFailure(std, "qm set <vmid>", errs)
	}
	if err := sh.s.checkChange(c); err != nil {
		return refused(std, "qm set <vmid>", err)
	}
	fmt.Fprintf(std.out, "update VM %d: %s\n", vmid, changeText(c))
	if _, err := putConfig(sh.s, c); err != nil {
		return refused(std, "qm set <vmid>", err)
	}
	return 0
}

// refused prints what the API answers to a command's call.
func refused(std stdio, usage string, err error) int {
	if e, ok := errors.AsType[*apiError](err); ok && len(e.errs) > 0 {
		return paramFailure(std, usage, e.errs)
	}
	return fail(std, err)
}

func paramFailure(std stdio, usage string, errs map[string]string) int {
	fmt.Fprintln(std.err, "400 Parameter verification failed.")
	for _, k := range sortedKeys(errs) {
		fmt.Fprintf(std.err, "%s: %s\n", k, errs[k])
	}
	fmt.Fprintln(std.err, usage+" [OPTIONS]")
	return 255
}

// qmResize exits 0 even when it refuses (observed).
func (sh *shell) qmResize(_ context.Context, vmid int, args []string, std stdio) int {
	if len(args) != 2 {
		fmt.Fprintln(std.err, "400 not enough arguments\nqm disk resize <vmid> <disk> <size> [OPTIONS]")
		return 255
	}
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	log, err := sh.s.resizeNow(identity{user: "root@pam"}, sh.node, vmid, args[0], args[1], "")
	for _, l := range log {
		fmt.Fprintln(std.out, l)
	}
	if err != nil {
		fmt.Fprintln(std.err, err)
	}
	return 0
}

func (sh *shell) qmConfig(_ context.Context, vmid int, _ []string, std stdio) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	v, err := sh.s.vmOn(sh.node, vmid)
	if err != nil {
		return fail(std, err)
	}
	fmt.Fprint(std.out, v.Config.text())
	return 0
}

func (sh *shell) qmStatus(_ context.Context, vmid int, _ []string, std stdio) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	v, err := sh.s.vmOn(sh.node, vmid)
	if err != nil {
		return fail(std, err)
	}
	fmt.Fprintf(std.out, "status: %s\n", sh.s.vmStatus(v)["status"])
	return 0
}

func (sh *shell) qmUnlock(_ context.Context, vmid int, _ []string, std stdio) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	v, err := sh.s.vmOn(sh.node, vmid)
	if err != nil {
		return fail(std, err)
	}
	delete(v.Config, "lock")
	sh.s.changed()
	return 0
}

// qmTerminal opens the console of a VM that runs and has a serial port, and leaves it at once: nothing writes there.
func (sh *shell) qmTerminal(_ context.Context, vmid int, _ []string, std stdio) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	v, err := sh.s.vmOn(sh.node, vmid)
	if err != nil {
		return fail(std, err)
	}
	port := ""
	for i := range 4 {
		if name := fmt.Sprintf("serial%d", i); port == "" && v.Config[name] == "socket" {
			port = name
		}
	}
	switch {
	case port == "":
		return fail(std, errors.New("unable to find a serial interface"))
	case !sh.s.running(v):
		return fail(std, fmt.Errorf("VM %d not running", vmid))
	}
	fmt.Fprintf(std.out, "starting serial terminal on interface %s (press Ctrl+O to exit)\n", port)
	return 0
}

// pvecmStatus tells of the quorum as corosync's quorum tool does, in short.
func (sh *shell) pvecmStatus(std stdio) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	quorate, votes, all := "No", 0, sh.s.expectedVotes()
	for _, n := range sh.s.state.Nodes {
		votes += btoi(n.Online)
	}
	if sh.s.quorate() {
		quorate = "Yes"
	}
	fmt.Fprintf(
		std.out, "Quorum information\n------------------\nNodes:            %d\nQuorate:          %s\n\n", votes,
		quorate,
	)
	fmt.Fprintf(
		std.out,
		"Votequorum information\n----------------------\nExpected votes:   %d\nTotal votes:      %d\nQuorum:          "+
			" %d\n",
		all, votes, all/2+1,
	)
	return 0
}

// pvecmExpected sets how many votes there should be, which may not be fewer than there are.
func (sh *shell) pvecmExpected(text string, std stdio) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	votes := 0
	for _, n := range sh.s.state.Nodes {
		votes += btoi(n.Online)
	}
	expected, err := strconv.Atoi(text)
	switch {
	case err != nil || expected < 1:
		fmt.Fprintf(
			std.err,
			"400 Parameter verification failed.\nexpected: type check ('integer') failed - got '%s'\npvecm expected "+
				"<expected>\n",
			text,
		)
		return 255
	case expected < votes:
		fmt.Fprintln(std.err, "Unable to set expected votes: CS_ERR_INVALID_PARAM")
		return 255
	}
	sh.s.state.Expected = expected
	sh.s.changed()
	return 0
}

// haStatus tells what the HA manager keeps, and in which state.
func (sh *shell) haStatus(std stdio) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	quorum := "No"
	if sh.s.quorate() {
		quorum = "OK"
	}
	fmt.Fprintln(std.out, "quorum "+quorum)
	for _, sid := range sortedKeys(sh.s.state.Datacenter.HAResources) {
		r := sh.s.haResource(sid)
		_, id, _ := strings.Cut(sid, ":")
		vmid, _ := strconv.Atoi(id)
		node := ""
		if v := sh.s.state.VMs[vmid]; v != nil {
			node = v.Node
		}
		fmt.Fprintf(std.out, "service %s (%s, %v)\n", sid, node, r["state"])
	}
	return 0
}

// snippetFile resolves a path to the storage whose snippet directory it is in.
func (s *Server) snippetFile(file string) (storageID, name string, ok bool) {
	file = path.Clean(file)
	for _, id := range sortedKeys(s.state.Storages) {
		st := s.state.Storages[id]
		if st.Path != "" && path.Dir(file) == path.Join(st.Path, "snippets") {
			return id, "snippets/" + path.Base(file), true
		}
	}
	return "", "", false
}
