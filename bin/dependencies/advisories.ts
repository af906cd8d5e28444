/** Known vulnerabilities of packages, as `npm audit` reports them. */

import { execFile } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Package } from './lock-file.ts';

export interface Audit {
  readonly outcome: 'passed' | 'vulnerable' | 'not-audited';
  /** Vulnerabilities that must not reach users. */
  readonly problems: readonly string[];
  /** Other vulnerabilities, or why nothing was audited. */
  readonly warnings: readonly string[];
}

/** What `npm audit --json` prints. */
interface AuditReport {
  readonly auditReportVersion: 2;
  readonly vulnerabilities: Readonly<Record<string, Vulnerability>>;
}

interface Vulnerability {
  /** Advisories of the package itself, and names of vulnerable packages that it depends on. */
  readonly via: readonly (Advisory | string)[];
  /** The folders in which the package is installed in a vulnerable version. */
  readonly nodes: readonly string[];
}

interface Advisory {
  readonly severity: string;
  readonly title: string;
  readonly url: string;
}

const unacceptable: readonly string[] = ['high', 'critical'];

/** A version with a critical advisory since 2022: GHSA-xvch-5gv4-984h. */
const knownVulnerable = { name: 'minimist', version: '0.0.8' };

/** Audits `packages`, those of the project in `folder`. */
export async function auditPackages(folder: string, packages: readonly Package[]): Promise<Audit> {
  const control = await auditKnownVulnerable(folder);
  if (typeof control === 'string') return notAudited(control);
  if (control.vulnerabilities[knownVulnerable.name] === undefined) {
    const { name, version } = knownVulnerable;
    return notAudited(`the registry knows no advisory for ${name} ${version}, which is vulnerable`);
  }
  const report = await npmAudit(folder);
  return typeof report === 'string' ? notAudited(report) : assess(report, packages);
}

const notAudited = (reason: string): Audit => ({
  outcome: 'not-audited',
  problems: [],
  warnings: [`Not audited: ${reason}`],
});

function assess({ vulnerabilities }: AuditReport, packages: readonly Package[]): Audit {
  const findings = Object.entries(vulnerabilities).flatMap(([name, { via, nodes }]) =>
    via
      .filter((each) => typeof each !== 'string')
      .flatMap((advisory) => nodes.map((node) => findingOf(name, node, advisory, packages))),
  );
  const textsOf = (isProblem: boolean) =>
    findings.filter((each) => each.isProblem === isProblem).map(({ text }) => text);
  const problems = textsOf(true);
  return { outcome: problems.length > 0 ? 'vulnerable' : 'passed', problems, warnings: textsOf(false) };
}

function findingOf(name: string, node: string, { severity, title, url }: Advisory, packages: readonly Package[]) {
  const installed = packages.find(({ folder }) => folder === node);
  // A package that is not in the lock file should not be there at all.
  const isShipped = installed?.isShipped ?? true;
  const use = isShipped ? 'users receive it' : 'for development only';
  return {
    isProblem: isShipped && unacceptable.includes(severity),
    text: `${name} ${installed?.version ?? ''} in ${node} (${use}), ${severity}: ${title}, ${url}`,
  };
}

/** Audits a project that depends on {@link knownVulnerable} alone. */
async function auditKnownVulnerable(folder: string): Promise<AuditReport | string> {
  const { name, version } = knownVulnerable;
  const project = mkdtempSync(join(tmpdir(), 'audit-'));
  try {
    const own = { name: 'control', version: '0.0.0', dependencies: { [name]: version } };
    const lock = { name: own.name, lockfileVersion: 3, requires: true };
    const packages = { '': own, [`node_modules/${name}`]: { version } };
    writeFileSync(join(project, 'package.json'), JSON.stringify(own));
    writeFileSync(join(project, 'package-lock.json'), JSON.stringify({ ...lock, packages }));
    // It may name the registry.
    const settings = join(folder, '.npmrc');
    if (existsSync(settings)) copyFileSync(settings, join(project, '.npmrc'));
    return await npmAudit(project);
  } finally {
    rmSync(project, { recursive: true });
  }
}

/** The report, or why there is none. */
function npmAudit(folder: string): Promise<AuditReport | string> {
  const retries = ['--fetch-retries=1', '--fetch-retry-mintimeout=1000', '--fetch-timeout=60000'];
  const args = ['audit', '--json', '--package-lock-only', '--offline=false', '--include=dev', ...retries];
  return new Promise((resolve) => {
    // npm exits with 1 if it finds a vulnerability, and if it fails.
    execFile('npm', args, { cwd: folder, maxBuffer: 64 * 1024 * 1024 }, (error, stdout) => {
      const report = parseJson(stdout) as Partial<AuditReport> & { readonly message?: string };
      if (report.auditReportVersion === 2 && report.vulnerabilities !== undefined) resolve(report as AuditReport);
      else resolve(`npm audit has no result: ${report.message ?? error?.message ?? 'it printed none'}`);
    });
  });
}

function parseJson(text: string): object {
  try {
    return JSON.parse(text) as object;
  } catch {
    return {};
  }
}
