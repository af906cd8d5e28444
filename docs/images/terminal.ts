/**
 * Creates a screenshot of a terminal session: runs commands in a pseudo terminal, so that their output has colors, and
 * renders the output in a window. Requires Chromium, and `script` from util-linux.
 *
 * @example node docs/images/terminal.ts --to docs/images/terminal.png 'npm start' 'npx --no -- report-exporter status'
 *
 * A command `shown ::: run` displays the first part and runs the second. `--prepare` runs a command without showing it.
 */

import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';
import { launchChromium } from '../../test/browser/chromium.ts';
import { createTerminalScreen } from './terminal-screen.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    to: { type: 'string', default: 'docs/images/terminal.png' },
    columns: { type: 'string', default: '100' },
    cwd: { type: 'string', default: process.cwd() },
    prepare: { type: 'string', multiple: true, default: [] },
  },
});
const columns = Number(values.columns);
if (positionals.length === 0) throw new Error("No commands given. Pass each command in quotes: 'npm start'");

for (const command of values.prepare) await runInTerminal(command);
const screen = createTerminalScreen(columns);
for (const [index, command] of positionals.entries()) {
  const [shown = '', run = shown] = command.split(':::').map((part) => part.trim());
  screen.write(`${index === 0 ? '' : '\r\n'}\x1b[32m$\x1b[0m \x1b[1m${shown}\x1b[0m\r\n${await runInTerminal(run)}`);
}
await takeScreenshot(screen.html(), values.to);

/** Resolves to everything that `command` writes to its terminal, also if it fails. */
async function runInTerminal(command: string): Promise<string> {
  // The variables of an npm that started this script would change the output.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')));
  const child = spawn(
    'script',
    ['--quiet', '--return', '--command', `stty cols ${columns} rows 50; ${command}`, '/dev/null'],
    {
      cwd: values.cwd,
      env: { ...env, TERM: 'xterm-256color', COLORTERM: 'truecolor' },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  return output;
}

async function takeScreenshot(lines: readonly string[], path: string): Promise<void> {
  await using browser = await launchChromium();
  const page = await browser.newPage({ deviceScaleFactor: 2, viewport: { width: 1_600, height: 900 } });
  await page.setContent(`<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; width: max-content; padding: 4px }
    .window { border: 1px solid #3a434c; border-radius: 10px; overflow: hidden; background: #14181c; color: #e4e8eb }
    .bar { display: flex; gap: 8px; padding: 12px 14px; background: #1d2329 }
    .bar i { width: 11px; height: 11px; border-radius: 50%; background: #3a434c }
    pre { margin: 0; padding: 16px 20px 20px; width: ${columns}ch;
      font: 14px/1.5 "JetBrains Mono", ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace;
      font-variant-ligatures: none; box-sizing: content-box }
  </style><div class="window"><div class="bar"><i></i><i></i><i></i></div><pre>${lines.join('\n')}</pre></div>`);
  await page.locator('body').screenshot({ path, omitBackground: true });
}
