/** `report-exporter doctor`: checks whether exports could run now, and says how to fix what would prevent them. */

import { type Call, exitStatuses, runOnTarget } from '../context.ts';
import type { Finding } from '../../aws/stack/findings.ts';
import { runHealthChecks } from '../health-checks.ts';
import { plural } from '../output/format.ts';
import { type TextStyle, textStyleFor } from '../output/terminal.ts';

/** Prints the findings as they arrive. Exits with `failed` if there is a problem; warnings do not count. */
export async function doctorCommand(call: Call): Promise<number> {
  const { names, options, stdout, stderr, env, runtime, program, version } = call;
  const { json = false } = options;
  const checks = { version, program, notify: (text: string) => stderr.write(`${text}\n`), runtime };
  return await runOnTarget(call, async (target) => {
    const style = textStyleFor(stdout, env);
    const findings: Finding[] = [];
    for await (const finding of runHealthChecks(target, names[0], checks)) {
      findings.push(finding);
      if (!json) stdout.write(formatFinding(finding, style));
    }
    const count = (state: Finding['state']) => findings.filter((finding) => finding.state === state).length;
    const problems = count('problem');
    const warnings = count('warning');
    const status = problems > 0 ? 'problem' : warnings > 0 ? 'warning' : 'ok';
    stdout.write(
      json
        ? `${JSON.stringify({ status, target: target.name, findings })}\n`
        : `${plural(problems, 'problem')}, ${plural(warnings, 'warning')} (${target.name})\n`,
    );
    return problems > 0 ? exitStatuses.failed : exitStatuses.ok;
  });
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], problem: ['red', '✗'] } as const;

/** Names of exports are long, so they begin the message: findings arrive one by one, and stay in columns. */
const checkWidth = 'concurrency'.length;

function formatFinding({ check, export: name, state, message, remedy }: Finding, style: TextStyle): string {
  const [color, mark] = marks[state];
  const indent = `  ${' '.repeat(checkWidth)} `;
  const text = message.replaceAll('\n', `\n${indent}`);
  const line = `${style(color, mark)} ${check.padEnd(checkWidth)} ${name === null ? '' : `${name}: `}${text}\n`;
  return remedy === null ? line : `${line}${indent}${style('bold', '→')} ${remedy}\n`;
}
