package simhive

import "strconv"

// setting reads a service's setting as the real program does: first the variable of the era's prefix and the setting's
// own name, then the ones that services have given it. Services share the names host, port and tls-cert, so that one's
// variable reaches another, and so do their defaults. Variables of the other era are not looked at.
func (p *program) setting(name string) string {
	suffixes, fallback := settingNames(name)
	for _, suffix := range suffixes {
		if value := p.env[p.settings.prefix()+suffix]; value != "" {
			return value
		}
	}
	return fallback
}

func settingNames(name string) (suffixes []string, fallback string) {
	switch name {
	case "config":
		return []string{"CONFIG", "CONFIG_PATH"}, ""
	case "config-path":
		return []string{"CONFIG_PATH", "PREDASTORE_CONFIG_PATH"}, ""
	case "base-path":
		return []string{"BASE_PATH", "PREDASTORE_BASE_PATH"}, ""
	case "base-dir":
		return []string{"BASE_DIR"}, ""
	case "wal-dir":
		return []string{"WAL_DIR"}, ""
	case "data-dir":
		return []string{"DATA_DIR", "NATS_DATA_DIR"}, ""
	case "host":
		return []string{"HOST", "PREDASTORE_HOST", "NATS_HOST", "AWSGW_HOST"}, "0.0.0.0:9999"
	case "port":
		return []string{"PORT", "PREDASTORE_PORT", "NATS_PORT"}, "4222"
	case "tls-cert":
		return []string{"TLS_CERT", "PREDASTORE_TLS_CERT", "AWSGW_TLS_CERT"}, ""
	case "tls-key":
		return []string{"TLS_KEY", "PREDASTORE_TLS_KEY", "AWSGW_TLS_KEY"}, ""
	case "node-id":
		return []string{"NODE_ID", "PREDASTORE_NODE_ID"}, "0"
	case "plugin-path":
		return []string{"PLUGIN_PATH", "VIPERBLOCK_PLUGIN_PATH"}, ""
	case "ui-host":
		return []string{"UI_HOST"}, "0.0.0.0"
	case "ui-port":
		return []string{"UI_PORT"}, "3000"
	case "ui-tls-cert":
		return []string{"UI_TLS_CERT"}, ""
	case "ui-tls-key":
		return []string{"UI_TLS_KEY"}, ""
	}
	return nil, ""
}

func (p *program) number(name string) int {
	n, _ := strconv.Atoi(p.setting(name)) // what is no number is 0, as in the real program
	return n
}
