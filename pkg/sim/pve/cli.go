package pve

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// command is one of a hypervisor's programs with its words: a call of the API as root. Args are the parameters that
// stand without a name, in their order; those that the path names are taken from them.
type command struct {
	words        string
	method, path string
	args         []string
	print        func(stdio, any)
}

// commands are those that hive-test advises, and what shows their effect. pvesh has one for each method.
func commands() []command {
	const (
		vm    = "/nodes/{node}/qemu/{vmid}"
		token = "/access/users/{userid}/token/{tokenid}"
	)
	var (
		vmid   = []string{"vmid"}
		role   = []string{"roleid"}
		ofUser = []string{"userid", "tokenid"}
	)
	return []command{
		{"qm start", "POST", vm + "/status/start", vmid, nil},
		{"qm stop", "POST", vm + "/status/stop", vmid, nil},
		{"qm destroy", "DELETE", vm, vmid, nil},
		{"qm resume", "POST", vm + "/status/resume", vmid, nil},
		{"qm template", "POST", vm + "/template", vmid, nil},
		{"qm agent", "POST", vm + "/agent", []string{"vmid", "command"}, printNothing},
		{"pvesm set", "PUT", "/storage/{storage}", []string{"storage"}, printNothing},
		{"pvesm free", "DELETE", "/nodes/{node}/storage/{storage}/content/{volume}", []string{"volume"}, nil},
		{"pvesm status", "GET", "/nodes/{node}/storage", nil, printStorages},
		{"pveum acl modify", "PUT", "/access/acl", []string{"path"}, nil},
		{"pveum acl list", "GET", "/access/acl", nil, printTable},
		{"pveum pool add", "POST", "/pools", []string{"poolid"}, nil},
		{"pveum role add", "POST", "/access/roles", role, nil},
		{"pveum role modify", "PUT", "/access/roles/{roleid}", role, nil},
		{"pveum user add", "POST", "/access/users", []string{"userid"}, nil},
		{"pveum user token add", "POST", token, ofUser, printTable},
		{"pveum user token modify", "PUT", token, ofUser, printNothing},
		{"pveum user token list", "GET", "/access/users/{userid}/token", []string{"userid"}, printTable},
	}
}

// pveshMethods are the API's methods by pvesh's words for them.
func pveshMethods() map[string]string {
	return map[string]string{"get": "GET", "set": "PUT", "create": "POST", "delete": "DELETE"}
}

// cli runs one of the programs that ask the API, as root; known is false where it has no such command here.
func (sh *shell) cli(ctx context.Context, args []string, std stdio) (status int, known bool) {
	if args[0] == "pvesh" && len(args) > 2 && pveshMethods()[args[1]] != "" {
		c := command{words: "pvesh " + args[1], method: pveshMethods()[args[1]], path: args[2], print: printTable}
		return sh.ask(ctx, c, args[3:], std), true
	}
	for _, c := range commands() {
		if words := strings.Fields(c.words); len(args) >= len(words) && slices.Equal(words, args[:len(words)]) {
			return sh.ask(ctx, c, args[len(words):], std), true
		}
	}
	return 0, false
}

// ask makes a command's call and prints what comes of it: an answer, a task's log, or a refusal.
func (sh *shell) ask(ctx context.Context, c command, args []string, std stdio) int {
	path := strings.ReplaceAll(c.path, "{node}", sh.node)
	m := sh.s.match(c.method, path)
	if m == nil || m.route.serve == nil {
		fmt.Fprintf(std.err, "No '%s' handler defined for '%s'\n", strings.TrimPrefix(c.words, "pvesh "), path)
		return 255
	}
	params, err := commandParams(c, m.schema.props, args)
	if err != nil {
		fmt.Fprintf(std.err, "%v\n%s [OPTIONS]\n", err, c.words)
		return 255
	}
	for name := range m.values {
		if v, ok := params[name]; ok {
			m.values[name] = v
		}
	}
	if volume, ok := m.values["volume"]; ok && len(c.args) > 0 {
		storage, name, _ := strings.Cut(volume.text, ":")
		m.values["storage"], m.values["volume"] = textValue(storage), textValue(name)
	}
	data, err := sh.s.perform(&call{ctx: ctx, who: identity{user: "root@pam"}, params: merged(params, m.values)}, m)
	if err != nil {
		return refused(std, c.words, err)
	}
	if upid, ok := data.(string); ok && upidPattern.MatchString(upid) {
		return sh.follow(ctx, upid, std)
	}
	if c.print != nil {
		c.print(std, data)
	}
	return 0
}

func textValue(text string) value { return value{text: text, list: []string{text}} }

// commandParams are a command's arguments and options. An option that is true or false may stand without a value.
func commandParams(c command, props map[string]*property, args []string) (map[string]value, error) {
	params := map[string]value{}
	var bare []string
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if !strings.HasPrefix(word, "-") {
			bare = append(bare, word)
			continue
		}
		name, text, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		p := props[name]
		switch {
		case p == nil:
			//lint:ignore ST1005 PVE's words
			return nil, fmt.Errorf("Unknown option: %s\n400 unable to parse option", name)
		case given:
		case p.Type == "boolean" && (len(args) == 0 || strings.HasPrefix(args[0], "-")):
			text = "1"
		case len(args) == 0:
			//lint:ignore ST1005 PVE's words
			return nil, fmt.Errorf("Option %s requires an argument\n400 unable to parse option", name)
		default:
			text, args = args[0], args[1:]
		}
		params[name] = textValue(text)
	}
	switch {
	case len(bare) < len(c.args):
		return nil, fmt.Errorf("400 not enough arguments")
	case len(bare) > len(c.args):
		return nil, fmt.Errorf("400 too many arguments")
	}
	for i, name := range c.args {
		params[name] = textValue(bare[i])
	}
	return params, nil
}

// follow prints a task's log until its end, and reports whether it succeeded.
func (sh *shell) follow(ctx context.Context, upid string, std stdio) int {
	for {
		sh.s.mu.Lock()
		i := slices.IndexFunc(sh.s.state.Tasks, func(t *taskRecord) bool { return t.UPID == upid })
		var exit string
		var log []string
		if i >= 0 {
			exit, log = sh.s.state.Tasks[i].Exit, slices.Clone(sh.s.state.Tasks[i].Log)
		}
		sh.s.mu.Unlock()
		switch {
		case i < 0 || ctx.Err() != nil:
			return 255
		case exit == "":
			sleep(ctx, 10*time.Millisecond)
			continue
		}
		// the last line is of the task's end, which the command tells by its status
		for _, line := range log[:len(log)-1] {
			fmt.Fprintln(std.out, line)
		}
		if exit == "OK" || strings.HasPrefix(exit, "WARNINGS") {
			return 0
		}
		fmt.Fprintln(std.err, exit)
		return 255
	}
}

func printNothing(stdio, any) {}

// printStorages is `pvesm status`.
func printStorages(std stdio, data any) {
	rows, _ := data.([]map[string]any)
	const format = "%-*s %10s %10s %15v %15v %15v %8s\n"
	width := len("Name")
	for _, row := range rows {
		width = max(width, len(fmt.Sprint(row["storage"])))
	}
	fmt.Fprintf(std.out, format, width, "Name", "Type", "Status", "Total", "Used", "Available", "%")
	for _, row := range rows {
		status := map[any]string{1: "active"}[row["active"]]
		if status == "" {
			status = "inactive"
		}
		total, used, avail := kilobytes(row["total"]), kilobytes(row["used"]), kilobytes(row["avail"])
		percent := 0.0
		if total > 0 {
			percent = 100 * float64(used) / float64(total)
		}
		fmt.Fprintf(
			std.out, format, width, fmt.Sprint(row["storage"]), fmt.Sprint(row["type"]), status, total, used, avail,
			fmt.Sprintf("%.2f%%", percent),
		)
	}
}

func kilobytes(v any) int64 {
	n, _ := v.(int64)
	return n / kib
}

// printTable draws rows as the programs do, the columns in the order of their names, and prints a single value as it
// is.
func printTable(std stdio, data any) {
	var rows []map[string]any
	switch data := data.(type) {
	case nil:
		return
	case []map[string]any:
		rows = data
	case []any:
		for _, row := range data {
			if m, ok := row.(map[string]any); ok {
				rows = append(rows, m)
			}
		}
	case map[string]any:
		for _, key := range sortedKeys(data) {
			rows = append(rows, map[string]any{"key": key, "value": data[key]})
		}
	default:
		fmt.Fprintln(std.out, data)
		return
	}
	drawTable(std, rows)
}

// cellText is a value in a table: an object or a list is JSON there, too.
func cellText(v any) string {
	switch v.(type) {
	case map[string]any, []any, []string, []map[string]any:
		if text, err := json.Marshal(v); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v)
}

func drawTable(std stdio, rows []map[string]any) {
	widths := map[string]int{}
	for _, row := range rows {
		for name, v := range row {
			widths[name] = max(widths[name], utf8.RuneCountInString(name), utf8.RuneCountInString(cellText(v)))
		}
	}
	names := slices.Sorted(maps.Keys(widths))
	line := func(cell func(string) string) {
		for _, name := range names {
			fmt.Fprintf(std.out, "| %-*s ", widths[name], cell(name))
		}
		fmt.Fprintln(std.out, "|")
	}
	rule := func(dash string) {
		for _, name := range names {
			fmt.Fprint(std.out, "+"+strings.Repeat(dash, widths[name]+2))
		}
		fmt.Fprintln(std.out, "+")
	}
	if len(names) == 0 {
		return
	}
	rule("-")
	line(func(name string) string { return name })
	rule("=")
	for _, row := range rows {
		line(func(name string) string {
			if v := row[name]; v != nil {
				return cellText(v)
			}
			return ""
		})
		rule("-")
	}
}
