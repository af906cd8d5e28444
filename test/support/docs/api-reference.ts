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
import { metricUnits, serviceMetrics } from '../../../lib/core/metrics.ts';

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
  readonly doc: DocComment;
  readonly members: readonly ApiItem[];
}

interface DocComment {
  readonly text: string;
  /** The block tags in their order, such as `default`, with their texts. */
  readonly tags: readonly (readonly [name: string, text: string])[];
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

/** The doc comment before a node: the last one. */
function docOf(node: Node, text: string): DocComment {
  const [leading = ''] = leadingComments.exec(text.slice(node.pos, node.end)) ?? [];
  const comment = [...leading.matchAll(/\/\*\*([\s\S]*?)\*\//g)].at(-1)?.[1] ?? '';
  const lines = comment.replaceAll(/^\s*\* ?/gm, '').trim();
  const [description = '', ...tags] = lines.split(/^@(?=[a-z])/m);
  return {
    text: description.trim(),
    tags: tags.map((tag) => {
      const [, name = '', rest = ''] = /^(\w+)\s*([\s\S]*)$/.exec(tag) ?? [];
      return [name, rest.trim()] as const;
    }),
  };
}

/** The page, as Markdown. */
export function apiReference(items: readonly ApiItem[]): string {
  const parts = [
    '# API reference',
    'The CDK constructs, generated from their doc comments by `npm run docs:api`. [In your own CDK app](cdk.md) shows how ' +
      'to use them.',
    ...items.map(renderItem),
    renderMetrics(),
  ];
  return `${parts.join('\n\n')}\n`;
}

function renderItem({ name, kind, signature, doc, members }: ApiItem): string {
  const ofKind = (wanted: ApiItem['kind']) => members.filter((member) => member.kind === wanted);
  const properties = ofKind('property');
  const isClass = kind === 'class';
  return [
    `## ${name}`,
    ...(signature === '' ? [] : [`\`${kind} ${name} ${signature}\``]),
    renderDoc(doc),
    ...(isClass ? ofKind('constructor').map((each) => renderMethod({ ...each, name: `new ${name}` })) : []),
    ...(properties.length === 0
      ? []
      : [isClass ? renderTable(properties, 'Property') : renderTable(properties, 'Property', 'Default')]),
    ...ofKind('method').map(renderMethod),
  ].join('\n\n');
}

function renderMethod({ name, signature, doc }: ApiItem): string {
  return [`### ${name}`, `\`\`\`ts\n${name}${signature}\n\`\`\``, renderDoc(doc)].join('\n\n');
}

const tagTitles: Readonly<Record<string, string>> = { default: 'Default', throws: 'Throws' };

function renderDoc({ text, tags }: DocComment): string {
  const parameters = tags.flatMap(([name, rest]) => {
    const [, parameter = '', meaning = ''] = /^(\w+) ([\s\S]*)$/.exec(rest) ?? [];
    return name === 'param' ? [`- \`${parameter}\`: ${toMarkdown(meaning)}`] : [];
  });
  const examples = tags.flatMap(([name, code]) => (name === 'example' ? [`\`\`\`ts\n${code}\n\`\`\``] : []));
  const others = tags.flatMap(([name, rest]) =>
    tagTitles[name] === undefined ? [] : [`${tagTitles[name]}: ${toMarkdown(rest.replace(/^- /, ''))}.`],
  );
  return [toMarkdown(text), parameters.join('\n'), ...others, ...examples].filter((part) => part !== '').join('\n\n');
}

function renderTable(properties: readonly ApiItem[], first: string, ...more: readonly 'Default'[]): string {
  const rows = properties.map(({ name, signature, doc }) => {
    const defaultValue = doc.tags.find(([tag]) => tag === 'default')?.[1].replace(/^- /, '');
    const isRequired = !name.endsWith('?');
    const thrown = doc.tags.filter(([tag]) => tag === 'throws').map(([, text]) => ` Throws: ${text}.`);
    return [
      `\`${name.replace('?', '')}\``,
      `\`${signature.replaceAll('|', '\\|')}\``,
      toMarkdown(doc.text + thrown.join('')),
      ...more.map(() => toMarkdown(defaultValue ?? (isRequired ? 'required' : ''))),
    ];
  });
  return table([first, 'Type', 'Meaning', ...more], rows);
}

function renderMetrics(): string {
  const source = readFileSync(join(root, metricsFile), 'utf8');
  const rows = Object.entries(metricUnits).map(([name, unit]) => {
    const [, comment = ''] = new RegExp(`/\\*\\* ([^*]+) \\*/\\s+${name}:`).exec(source) ?? [];
    const isOfService = (serviceMetrics as readonly string[]).includes(name);
    const of = name === 'StartsRejected' ? 'service' : isOfService ? 'export, service' : 'export';
    return [`\`${name}\``, unit, of, comment];
  });
  const text = 'In the namespace `ReportExporter`. `metric(name)` returns each of them.';
  return ['## Metrics', text, table(['Metric', 'Unit', 'Of each', 'Meaning'], rows)].join('\n\n');
}

const table = (header: readonly string[], rows: readonly (readonly string[])[]): string =>
  [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** On one line, with citations of other pages as links. */
function toMarkdown(text: string): string {
  const anchorOf = (title: string) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-');
  return text
    .replaceAll(/\s*\n\s*/g, ' ')
    .replaceAll(/docs\/api\.md, "([^"]+)",?/g, (_, title: string) => `[${title}](#${anchorOf(title)})`)
    .replaceAll(
      /docs\/([\w-]+\.md), "([^"]+)",?/g,
      (_, page: string, title: string) => `[${title}](${page}#${anchorOf(title)})`,
    )
    .replaceAll(/`docs\/([\w./-]+)`/g, '[$1]($1)');
}
