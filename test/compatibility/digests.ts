/**
 * The digests of the fixtures, as `npm run fixtures` prints them. Only a version that is not released yet may get another one:
 * what a released version has written cannot change.
 */
export const digests: Readonly<Record<string, string>> = {
  '1.0': '015478bc690f0b4b4959c7b758a152787f6bcd9d67e0094cced49c7f1748f29b',
};
