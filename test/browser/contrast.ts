/** Measures the contrast between text and background as defined by WCAG 2. */

export interface Contrast {
  readonly text: string;
  /** From 1 (invisible) to 21 (black on white). WCAG requires at least 4.5. */
  readonly ratio: number;
}

/** The contrast of every visible text. Runs in the page, so it must not refer to anything outside of itself. */
export function measureContrasts(): Contrast[] {
  const channels = (color: string) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (color: string) => {
    const [r = 0, g = 0, b = 0] = channels(color).map((value) => {
      const fraction = value / 255;
      return fraction <= 0.04045 ? fraction / 12.92 : ((fraction + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const backgroundOf = (element: Element | null): string => {
    if (element === null) return 'rgb(255, 255, 255)';
    const background = getComputedStyle(element).backgroundColor;
    return channels(background)[3] === 0 ? backgroundOf(element.parentElement) : background;
  };
  return [...document.querySelectorAll('body *')]
    .filter((element) => element.checkVisibility())
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue?.trim()))
    .map((element) => {
      const [a, b] = [luminance(getComputedStyle(element).color), luminance(backgroundOf(element))];
      return {
        text: (element.textContent ?? '').trim().slice(0, 60),
        ratio: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
      };
    });
}
