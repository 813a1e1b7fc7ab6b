// Package pve is a strict stand-in for a Proxmox VE cluster: its HTTPS API with tokens, privileges, parameter checks,
// tasks and locks, and the SSH side of its hypervisors. Its virtual machines are machines of package host.
//
// What a call accepts comes from a table derived from what Proxmox VE publishes about itself (schema.json, for 8.4 and
// 9.1, and for 9.2 nothing that hive-test or the provider asks differs). What a call answers, when it refuses and with which words was
// observed on a Proxmox VE 8.4.21 and a 9.2.11 with dir storages.
// What differs from the real one is named where it does.
package pve
