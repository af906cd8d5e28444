/**
 * Prints the software bill of materials (CycloneDX) of what users receive: all packages but those that only development
 * needs.
 * `npm sbom --omit=dev` also leaves out packages that both need. `npm run --silent sbom > sbom.cdx.json`
 */

import { execFileSync } from 'node:child_process';

interface BillOfMaterials {
  readonly metadata: { readonly component: { readonly 'bom-ref': string; readonly name: string } };
  readonly components: readonly {
    readonly 'bom-ref': string;
    readonly properties: readonly { readonly name: string }[];
  }[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const args = ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only'];
const text = execFileSync('npm', args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
const bom = JSON.parse(text) as BillOfMaterials;
const components = bom.components.filter(
  ({ properties }) => !properties.some(({ name }) => name === 'cdx:npm:package:development'),
);
const references = new Set([bom.metadata.component, ...components].map((each) => each['bom-ref']));
const dependencies = bom.dependencies
  .filter(({ ref }) => references.has(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => references.has(each)) }));
// npm names it after its folder.
const component = { ...bom.metadata.component, name: bom.metadata.component['bom-ref'].replace(/@[^@]*$/, '') };
const metadata = { ...bom.metadata, component };
process.stdout.write(`${JSON.stringify({ ...bom, metadata, components, dependencies }, undefined, 2)}\n`);
