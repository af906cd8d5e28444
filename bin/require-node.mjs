/**
 * Stops with one line if this Node.js is too old. Every command runs it first, because what follows would only fail
 * with a stack trace. Hence plain JavaScript, without recent syntax.
 *
 * The checkout needs the version in `devEngines`, which loads TypeScript. `npm ci` installs it, unless `ignore-scripts`
 * is set or development dependencies are omitted. The installed package needs the one in `engines`.
 */

import { existsSync, readFileSync } from 'node:fs';

const isCheckout = existsSync(new URL('./report-exporter.ts', import.meta.url));
const { devEngines, engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const required = (isCheckout ? devEngines.runtime.version : engines.node).replace('>=', '');

if (isOlder(process.versions.node, required)) {
  process.stderr.write(
    `Error: report-exporter needs Node.js ${required} or later, but this is ${process.version}. ` +
      (isCheckout
        ? `Run "npm ci --ignore-scripts=false --include=dev", which installs a suitable Node.js here, or install Node.js ${required} `
        : `Install Node.js ${required} or later `) +
      'and try again.\n',
  );
  process.exit(1);
}

function isOlder(version, minimum) {
  const [major, minor] = version.split('.').map(Number);
  const [minMajor, minMinor = 0] = minimum.split('.').map(Number);
  return major < minMajor || (major === minMajor && minor < minMinor);
}
