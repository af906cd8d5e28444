/** The options of the command line that are settings, by where these are in a settings file. */

/** They are written over those of the file. `*` is the service, or each of the exports, that the command selects. */
export const settingOptions = {
  baseUrl: ['--base-url', 'services.*.baseUrl'],
  vendor: ['--vendor', 'services.*.vendor'],
  cursorIn: ['--cursor-in', 'services.*.cursorIn'],
  filterUntil: ['--filter-until', 'services.*.filterUntil'],
  export: ['--export', 'exports.*.name'],
  size: ['--size', 'exports.*.size'],
  compress: ['--compress', 'bucket.compression'],
} as const satisfies Record<string, readonly [option: string, path: string]>;

/** Options that there are not. */
export const settingsWithoutOption = {
  '--api-key-env': 'services.<name>.apiKeyEnv',
  '--proxy-url': 'services.<name>.proxyUrl',
  '--ca': 'services.<name>.tls.ca',
  '--client-certificate': 'services.<name>.tls.clientCertificate',
  '--client-key': 'services.<name>.tls.clientKey',
  '--client-key-passphrase-env': 'services.<name>.tls.clientKeyPassphraseEnv',
  '--header': 'services.<name>.headers',
  '--no-compression': 'services.<name>.compression',
  '--root-element': 'services.<name>.rootElement',
  '--overlap': 'exports[].since.overlap',
  '--filter': 'exports[].filter',
  '--format': 'exports[].format',
  '--container': 'exports[].container',
  '--max-pages': 'exports[].maxPages',
  '--max-empty-pages': 'exports[].maxEmptyPages',
} as const;
