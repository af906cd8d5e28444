/**
 * The software bill of materials, in CycloneDX: every package that `npm install` of this package installs in the versions of
 * package-lock.json, and every package whose code is bundled. `npm sbom --omit=dev` leaves out packages that a
 * development dependency needs, too.
 */

import { createHash } from 'node:crypto';
import type { Package } from './lock-file.ts';

interface Project {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  /** By name. */
  readonly dependencies: Readonly<Record<string, string>>;
}

/** The same text for the same packages: it contains no time, and its serial number is a hash. */
export function billOfMaterials(project: Project, packages: readonly Package[]): string {
  const shipped = packages.filter(({ isShipped }) => isShipped);
  const byReference = Map.groupBy(shipped, purlOf);
  const referenceOf = new Map(shipped.map((each) => [each.folder, purlOf(each)]));
  const references = (folders: readonly string[]) =>
    [...new Set(folders.map((folder) => referenceOf.get(folder)))].filter((each) => each !== undefined).sort();
  const own = purlOf(project);
  const direct = Object.keys(project.dependencies).map((name) => `node_modules/${name}`);
  const bundled = shipped.filter(({ isBundled }) => isBundled).map(({ folder }) => folder);
  const content = {
    metadata: { component: { type: 'application', 'bom-ref': own, ...identityOf(project), purl: own } },
    components: [...byReference].map(([reference, group]) => componentOf(reference, group)),
    dependencies: [
      { ref: own, dependsOn: references([...direct, ...bundled]) },
      ...[...byReference].map(([ref, group]) => ({
        ref,
        dependsOn: references(group.flatMap((each) => each.dependsOn)),
      })),
    ],
  };
  const bom = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${uuidOf(JSON.stringify(content))}`,
    version: 1,
    ...content,
  };
  return `${JSON.stringify(bom, undefined, 2)}\n`;
}

/** One package may be installed in several folders. */
function componentOf(reference: string, group: readonly Package[]) {
  const [first] = group;
  return {
    type: 'library',
    'bom-ref': reference,
    ...(first === undefined ? {} : identityOf(first)),
    purl: reference,
    hashes: hashesOf(first?.integrity ?? ''),
    properties: [
      ...(group.some(({ isInstalled }) => isInstalled) ? [{ name: 'report-exporter:installed', value: 'true' }] : []),
      ...(group.some(({ isBundled }) => isBundled) ? [{ name: 'report-exporter:bundled', value: 'true' }] : []),
    ],
  };
}

function identityOf({ name, version, license }: Pick<Package, 'name' | 'version' | 'license'>) {
  const [, scope, ownName = name] = /^(@[^/]+)\/(.+)$/.exec(name) ?? [];
  return {
    ...(scope === undefined ? {} : { group: scope }),
    name: ownName,
    version,
    licenses: license === undefined ? [] : [/ /.test(license) ? { expression: license } : { license: { id: license } }],
  };
}

const purlOf = ({ name, version }: Pick<Package, 'name' | 'version'>): string =>
  `pkg:npm/${name.replace('@', '%40')}@${version}`;

/** `sha512-<Base64>`, once or several times, separated by blanks. */
function hashesOf(integrity: string) {
  return [...integrity.matchAll(/\bsha(256|384|512)-([A-Za-z0-9+/=]+)/g)].map(([, bits = '', hash = '']) => ({
    alg: `SHA-${bits}`,
    content: Buffer.from(hash, 'base64').toString('hex'),
  }));
}

/** A UUID of version 8, whose content the application chooses. */
function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
