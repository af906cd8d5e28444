/**
 * Generates docs/api.md from the doc comments of the public classes and props in `lib/cdk`, with the parser of
 * TypeScript.
 *
 * Not TypeDoc: it runs on the JavaScript API of TypeScript 6 and older, which TypeScript 7 does not have.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClassDeclaration, ClassElement, InterfaceDeclaration, Node, TypeElement } from 'typescript/unstable/ast';
import {
  isClassDeclaration,
  isConstructorDeclaration,
  isGetAccessorDeclaration,
  isInterfaceDeclaration,
  isMethodDeclaration,
  isPrivateIdentifier,
  isPropertyDeclaration,
  isPropertySignatureDeclaration,
} from 'typescript/unstable/ast/is';
import { createVirtualFileSystem } from 'typescript/unstable/fs';
import { API } from 'typescript/unstable/sync';
import { metricUnits, serviceMetric } from '../../../lib/core/metrics.ts';

const root = join(import.meta.dirname, '../../..');

/** The public classes and interfaces, in the order of the page. */
const publicNames: Readonly<Record<string, readonly string[]>> = {
  'lib/cdk/report-exporter.ts': ['ReportExporter', 'ReportExporterProps', 'EventRuleOptions'],
  'lib/cdk/stack.ts': ['ReportExporterStack', 'ReportExporterStackProps'],
};
const metricsFile = 'lib/core/metrics.ts';

/** A class, an interface or a member of one. */
export interface ApiItem {
  readonly name: string;
  readonly kind: 'class' | 'interface' | 'property' | 'method' | 'constructor';
  /** The declared type of a property, parameters and result of a method, what a class or an interface extends. */
  readonly signature: string;
  /** The doc comment without its block tags. */
  readonly doc: string;
  readonly members: readonly ApiItem[];
}

/** Reads the doc comments of the public classes and interfaces. @throws if one does not exist */
export function readPublicApi(): ApiItem[] {
  const files = Object.keys(publicNames);
  const texts = Object.fromEntries(files.map((file) => [`/${file}`, readFileSync(join(root, file), 'utf8')]));
  // Only these files, without their imports: types are shown as they are written.
  const config = {
    compilerOptions: { noResolve: true, noLib: true, types: [] },
    files: files.map((file) => `/${file}`),
  };
  const fs = createVirtualFileSystem({ ...texts, '/tsconfig.json': JSON.stringify(config) });
  const api = new API({ cwd: '/', fs });
  try {
    const project = api.updateSnapshot({ openProjects: ['/tsconfig.json'] }).getProject('/tsconfig.json');
    return Object.entries(publicNames).flatMap(([file, names]) => {
      const source = project?.program.getSourceFile(`/${file}`);
      if (source === undefined) throw new Error(`TypeScript does not find ${file}`);
      return names.map((name) => {
        const found = [...source.statements].filter(isPublicDeclaration).find((node) => node.name?.text === name);
        if (found === undefined) throw new Error(`${file} has no class or interface ${name}`);
        return toItem(found, source.text);
      });
    });
  } finally {
    api.close();
  }
}

type Declaration = ClassDeclaration | InterfaceDeclaration;

const isPublicDeclaration = (node: Node): node is Declaration =>
  isClassDeclaration(node) || isInterfaceDeclaration(node);

function toItem(node: Declaration, text: string): ApiItem {
  const inherited = node.heritageClauses?.map((clause) => textOf(clause, text)).join(' ') ?? '';
  const members = [...node.members].flatMap((member) => toMember(member, text) ?? []);
  const kind = isClassDeclaration(node) ? 'class' : 'interface';
  return { name: node.name?.text ?? '', kind, signature: inherited, doc: docOf(node, text), members };
}

/** Undefined: the member is private. */
function toMember(member: ClassElement | TypeElement, text: string): ApiItem | undefined {
  const doc = docOf(member, text);
  if (isConstructorDeclaration(member)) {
    const signature = `(${member.parameters.map((each) => textOf(each, text)).join(', ')})`;
    return { name: 'constructor', kind: 'constructor', signature, doc, members: [] };
  }
  const { name: nameNode } = member as { readonly name?: Node };
  if (nameNode === undefined || isPrivateIdentifier(nameNode)) return undefined;
  const name = textOf(nameNode, text);
  if (isMethodDeclaration(member)) {
    const parameters = member.parameters.map((each) => textOf(each, text)).join(', ');
    const signature = `(${parameters}): ${member.type === undefined ? 'void' : textOf(member.type, text)}`;
    return { name, kind: 'method', signature, doc, members: [] };
  }
  if (isPropertyDeclaration(member) || isPropertySignatureDeclaration(member) || isGetAccessorDeclaration(member)) {
    const isOptional = 'postfixToken' in member && member.postfixToken !== undefined;
    const type = member.type === undefined ? '' : textOf(member.type, text);
    return {
      name: isOptional ? `${name}?` : name,
      kind: 'property',
      signature: isOptional ? type.replace(/ \| undefined$/, '') : type,
      doc,
      members: [],
    };
  }
  throw new Error(`${name} is neither a property nor a method`);
}

/** The source of a node, without comments before it, on one line. */
function textOf(node: Node, text: string): string {
  return text
    .slice(node.pos, node.end)
    .replace(leadingComments, '')
    .replaceAll(/\s*\n\s*/g, ' ');
}

const leadingComments = /^(?:\s+|\/\*[\s\S]*?\*\/|\/\/[^\n]*\n)*/;

/** The doc comment before a node, the last one, up to its block tags. */
function docOf(node: Node, text: string): string {
  const [leading = ''] = leadingComments.exec(text.slice(node.pos, node.end)) ?? [];
  const comment = [...leading.matchAll(/\/\*\*([\s\S]*?)\*\//g)].at(-1)?.[1] ?? '';
  const [description = ''] = comment.replaceAll(/^\s*\* ?/gm, '').split(/^@(?=[a-z])/m);
  return description.trim();
}

/** The page, as Markdown. */
export function apiReference(items: readonly ApiItem[]): string {
  const parts = [
    '# API reference',
    'What the package exports for CDK apps, generated from its code. Editors show parameters, defaults and examples. ' +
      '[In your own CDK app](cdk.md) shows how to use it, and [Settings](settings.md) has the fields of `service` and `exports`.',
    ...items.map(renderItem),
    renderMetrics(),
  ];
  return `${parts.join('\n\n')}\n`;
}

function renderItem({ name, kind, signature, doc, members }: ApiItem): string {
  const ofKind = (wanted: ApiItem['kind']) => members.filter((member) => member.kind === wanted);
  const inherited = signature === '' ? '' : `\`${kind} ${name} ${signature}\`: `;
  const properties = ofKind('property').map((each) => `\`${each.name}\``);
  const rows = [
    ...ofKind('constructor').map((each) => `- \`new ${name}${each.signature}\``),
    ...ofKind('method').map((each) => `- \`${each.name}${each.signature}\`: ${firstSentenceOf(each.doc)}`),
    ...(properties.length === 0 ? [] : [`- Properties: ${properties.join(', ')}`]),
  ];
  return [`## ${name}`, `${inherited}${firstSentenceOf(doc)}`, rows.join('\n')].join('\n\n');
}

function renderMetrics(): string {
  const source = readFileSync(join(root, metricsFile), 'utf8');
  const rows = Object.entries(metricUnits).map(([name, unit]) => {
    const [, comment = ''] = new RegExp(`/\\*\\* ([^*]+) \\*/\\s+${name}:`).exec(source) ?? [];
    return `- \`${name}\`${unit === 'Count' ? '' : ` (${unit})`}: ${comment}`;
  });
  const text = `\`metric(name)\` returns them, in the namespace \`ReportExporter\`, for an export. A service has \`${serviceMetric}\`.`;
  return ['## Metrics', text, rows.join('\n')].join('\n\n');
}

/** On one line: what editors show has the rest. */
const firstSentenceOf = (doc: string): string =>
  /^.*?[.](?= |$)/.exec(doc.split('\n\n')[0]?.replaceAll(/\s*\n\s*/g, ' ') ?? '')?.[0] ?? '';
