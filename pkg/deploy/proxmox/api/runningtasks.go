package api

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// taskWords say what a task does with a VM, for people. Others do nothing that takes long.
func taskWords(kind string) string {
	return map[string]string{
		"qmclone": "cloning", "qmcreate": "creating", "qmconfig": "configuring", "qmstart": "starting", "qmresize": "resizing",
		"resize": "resizing", "imgcopy": "importing", "qmdestroy": "deleting",
	}[kind]
}

// Running returns what hypervisors do with these VMs just now, by their ids, with how far they are where their tasks tell:
// cloning 40%. It tells what it can.
func (c *Client) Running(ctx context.Context, hypervisors []string, vmids []int) map[int]string {
	found := make([]map[int]string, len(hypervisors))
	_ = each(len(hypervisors), func(i int) error { // the requests are in debug.log
		tasks, err := c.listTasks(ctx, hypervisors[i], url.Values{"source": {"active"}, "limit": {"500"}}, time.Time{})
		found[i] = map[int]string{}
		for _, t := range tasks {
			words := taskWords(t.Type)
			if words == "" || t.Status != "" && !strings.EqualFold(t.Status, "running") { // it has just ended
				continue
			}
			lines := c.logOrReason(ctx, t.UPID)
			if vmid := vmOf(t.UPID, t.Type, lines); slices.Contains(vmids, vmid) {
				found[i][vmid] = strings.TrimSpace(words + " " + percentIn(lines))
			}
		}
		return err
	})
	all := map[int]string{}
	for _, tasks := range found {
		for vmid, words := range tasks {
			all[vmid] = words
		}
	}
	return all
}

// clonedDisk is a disk of the VM that a clone makes, in the log of its task. The task itself is one of the template.
var clonedDisk = regexp.MustCompile(`\bvm-(\d+)-(?:disk|cloudinit)`)

// vmOf returns the id of the VM that a task is about; 0: that is not known.
func vmOf(upid, kind string, lines []string) int {
	text := ""
	if kind == "qmclone" {
		for _, line := range lines {
			if disk := clonedDisk.FindStringSubmatch(line); disk != nil {
				text = disk[1]
			}
		}
	} else if parts := strings.Split(upid, ":"); len(parts) > 6 {
		text = parts[6]
	}
	vmid, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return vmid
}

// transferredPart is how far the copy of a disk is, as qemu-img tells it.
var transferredPart = regexp.MustCompile(`\((\d+)(?:\.\d+)?%\)`)

// percentIn returns how far a task is, by the last line of its log that says so; empty if none does.
func percentIn(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if part := transferredPart.FindStringSubmatch(line); part != nil {
			return part[1] + "%"
		}
	}
	return ""
}
